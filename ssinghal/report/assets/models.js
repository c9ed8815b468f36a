// Models with failing calls, by input size and module; models that only have the shape are listed separately.

function modelsView(_, group) {
  const shown = filtered(casesOf(group), ["status", "resource", "remedy"]); // shares are relative to all calls
  const keyOf = (source) => JSON.stringify([source.model || source.catalog, source.input]);
  const pairs = shown.flatMap((item) => item.sources.map((source) => ({ item, source })));
  const makes = rowsOf(
    pairs.filter(({ source }) => source.calls > 0),
    (source) => JSON.stringify([keyOf(source), source.catalog]),
  );
  const shapes = rowsOf(
    pairs.filter(({ source }) => source.calls === 0),
    keyOf,
  );
  const captures = new Map(tally(makes, keyOf));
  for (const row of makes) row.capture = captures.get(keyOf(row)) > 1 ? row.catalog : "";
  const failing = makes.flatMap((row) => row.failing);
  return [
    panel(
      "Models",
      makes.length
        ? "Calls of these models, counted as often as they are made, whatever their verdict. Captures at two levels have the" +
            " same calls."
        : "No case here is known to be a call of a model. The calls of a model are in its captured catalog:" +
            " ssinghal catalog list.",
      makes.length > 0 && sortedTable({
        columns: MODEL_COLUMNS,
        rows: makes,
        order: "-failing",
        label: "Models",
      }),
    ),
    panel(
      "Failing calls by module",
      failing.length > PAGE_ROWS ? `The ${PAGE_ROWS} most frequent calls; select a model to see its own.` : null,
      moduleTable(failing),
    ),
    shapes.length > 0 &&
      panel(
        "Models that only have the shape",
        "A shape sweep tries every operator at the shapes of these models: the model has a" +
          " tensor of the shape, but is not known to make the call.",
        shapeTable(shapes),
      ),
  ];
}

/** Groups the sources that pass the filters by `keyOf(source)`, with their cases and calls. */
function rowsOf(pairs, keyOf) {
  const rows = new Map();
  for (const { item, source } of pairs) {
    if (!passesSource(source)) continue;
    const key = keyOf(source);
    const row = rows.get(key) || {
      ...source,
      items: new Set(),
      failing: [],
      calls: 0,
      fittingCalls: 0,
      failingCalls: 0,
      oom: new Set(),
    };
    rows.set(key, row);
    row.items.add(item);
    row.calls += source.calls;
    if (item.status === "fits") row.fittingCalls += source.calls;
    if (!item.oom) continue;
    row.oom.add(item);
    row.failingCalls += source.calls;
    row.failing.push({ item, source });
  }
  return [...rows.values()];
}

function passesSource(source) {
  const same = { model: modelName(source), input: source.input, catalog: source.catalog };
  return Object.keys(same).every((name) => !state[name] || same[name] === state[name]);
}

function ranOut(row, ...resources) {
  return [...row.oom].filter((item) => resources.includes(item.resource)).length || null;
}

function resourceColumn(key, title, ...resources) {
  return {
    key,
    title,
    value: (row) => ranOut(row, ...resources),
    cell: (row) => {
      const n = ranOut(row, ...resources);
      return n && count(n);
    },
    number: true,
    minor: 1,
  };
}

function neither(row) {
  return row.calls - row.fittingCalls - row.failingCalls || null;
}

const MODEL_NAME = {
  key: "model",
  title: "Model",
  value: (row) => row.model || row.catalog,
  wide: true,
  cell: (row) => [
    row.model
      ? link({ model: modelName(row), input: row.input, catalog: row.capture || state.catalog }, row.model, {
          "data-focus": `model ${row.model} ${row.input} ${row.catalog}`,
        })
      : `catalog ${row.catalog}`,
    row.capture ? el("span.hint", ` ${row.capture}`) : null,
    el("span.hint.narrow", row.input),
  ],
};
const INPUT = {
  key: "input",
  title: "Input",
  minor: 1,
  value: (row) => row.input,
  cell: (row) => el("span.mono", row.input || NONE),
};
const OOM_CASES = {
  key: "failing",
  title: "Cases OOM",
  value: (row) => row.oom.size,
  number: true,
  cell: (row) =>
    row.oom.size
      ? link(
          {
            view: "cases",
            status: "oom",
            model: modelName(row),
            input: row.input,
            catalog: row.capture || (row.model ? state.catalog : row.catalog),
          },
          el("b", count(row.oom.size)),
        )
      : "0",
};
const MODEL_COLUMNS = [
  MODEL_NAME,
  INPUT,
  {
    key: "cases",
    title: "Cases",
    value: (row) => row.items.size,
    cell: (row) => count(row.items.size),
    number: true,
    minor: 2,
  },
  { key: "calls", title: "Calls", value: (row) => row.calls, cell: (row) => count(row.calls), number: true, minor: 1 },
  OOM_CASES,
  {
    key: "failingCalls",
    title: "Calls OOM",
    value: (row) => row.failingCalls,
    cell: (row) => count(row.failingCalls),
    number: true,
  },
  {
    key: "neither",
    title: "Neither",
    value: neither,
    cell: (row) => neither(row) && count(neither(row)),
    number: true,
    minor: 2,
    hint: "calls that neither fit nor run out of memory: unsupported, not run, or with an error",
  },
  resourceColumn("l1", "L1", "l1_buffer"),
  resourceColumn("dram", "DRAM", "dram_buffer"),
  resourceColumn("program", "Program", "circular_buffer", "clash"),
  resourceColumn("else", "Other", "l1_small_buffer", "trace_buffer", "kernel_config", "fragmentation", "host", ""),
  {
    key: "share",
    title: "Calls that fit",
    value: (row) => row.fittingCalls / row.calls,
    number: true,
    minor: 2,
    cell: (row) => percent(row.fittingCalls, row.calls),
    hint: "the others run out of memory, end with an error, are unsupported or not run",
  },
];

function moduleTable(failing) {
  if (!failing.length) return el("p.empty", "No call of a model runs out of memory among the cases that pass the filters.");
  const most = [...failing].sort((one, other) => other.source.calls - one.source.calls).slice(0, PAGE_ROWS);
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": "Failing calls: scrolls" },
    el(
      "table",
      { "aria-label": "Failing calls by module" },
      el(
        "thead",
        el(
          "tr",
          [
            ["Module", ""],
            ["Model", "minor1"],
            ["Operator", ""],
            ["Shape", "minor2"],
            ["Verdict", ""],
            ["Calls", "number"],
          ].map(([title, kind]) => el("th", { scope: "col", class: kind || null }, title)),
        ),
      ),
      el(
        "tbody",
        most.map(({ item, source }) =>
          el(
            "tr",
            { "data-case": item.name, class: item.name === state.case ? "selected" : null },
            el("td.wide", el("span.mono", source.module || NONE)),
            el("td.minor1", source.model || source.catalog, el("span.hint", source.input && ` ${source.input}`)),
            el("td", caseLink(item, item.op)),
            el("td.minor2", el("span.mono", item.shape)),
            el("td", badge(item)),
            el("td.number", count(source.calls)),
          ),
        ),
      ),
    ),
  );
}

function shapeTable(rows) {
  const most = rows.sort((one, other) => other.oom.size - one.oom.size);
  const columns = [MODEL_NAME, INPUT, OOM_CASES];
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": "Models by shape alone: scrolls" },
    el(
      "table",
      { "aria-label": "Models by shape alone" },
      el(
        "thead",
        el("tr", [
          ...columns.map((column) => el("th", { scope: "col", class: classOf(column) }, column.title)),
          el("th", { scope: "col", class: "number" }, "of cases"),
        ]),
      ),
      el(
        "tbody",
        most.map((row) =>
          el(
            "tr",
            columns.map((column) => cellOf(column, row)),
            el("td.number", count(row.items.size)),
          ),
        ),
      ),
    ),
  );
}
