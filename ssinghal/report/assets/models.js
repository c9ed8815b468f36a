// Models with failing calls, by input size and module; models that only have the shape are listed separately.

function modelsView(_, group, cases) {
  const shown = filtered(cases, ["status", "resource", "remedy"]); // shares are relative to all calls
  const makes = modelRows(shown);
  return [
    panel("Models", modelsHint(makes, cases), makes.length > 0 && sortedTable({
      columns: group.measuresMemory ? MODEL_COLUMNS : MODEL_COLUMNS.slice(0, 4),
      rows: makes,
      order: group.measuresMemory ? "-failingCalls" : "-calls",
      label: "Models",
    })),
    makes.length > 0 && modulesPanel(makes),
    shapesPanel(shown),
  ];
}

/** Explains the table, or states why there is none. */
function modelsHint(makes, cases) {
  if (makes.length)
    return (
      "Calls of these models, counted as often as they are made, whatever their verdict. Captures at two levels have the" +
      ` same calls.${variantsText(madeCalls(makes.flatMap((row) => [...row.items])))}`
    );
  if (cases.some((item) => item.calls)) return "No call of a model passes the filters.";
  return (
    "No case here is known to be a call of a model. The calls of a model are in its captured catalog: ssinghal catalog list."
  );
}

/** Returns the models that make some of the cases, by name; of a model with several captures, each with its name. */
function modelRows(items) {
  const makes = rowsOf(
    items,
    (source) => source.calls > 0,
    (source) => JSON.stringify([inputKey(source), source.catalog]),
  );
  const captures = new Map(tally(makes, inputKey));
  for (const row of makes) row.capture = captures.get(inputKey(row)) > 1 ? row.catalog : "";
  return makes;
}

function inputKey(source) {
  return JSON.stringify([source.model || source.catalog, source.input]);
}

/** Groups the sources that pass the filters and `takes(source)` by `keyOf(source)`, with their cases and calls, by name. */
function rowsOf(items, takes, keyOf) {
  const rows = new Map();
  for (const item of items) {
    for (const source of item.sources) {
      if (!takes(source) || !passesSource(source)) continue;
      const key = keyOf(source);
      const row = rows.get(key) || { ...source, key, items: new Set(), all: [], calls: 0, fittingCalls: 0, failingCalls: 0 };
      rows.set(key, row);
      row.items.add(item);
      row.all.push({ item, source });
      row.calls += source.calls;
      if (item.status === "fits") row.fittingCalls += source.calls;
      if (item.oom) row.failingCalls += source.calls;
    }
  }
  for (const row of rows.values()) {
    row.failing = row.all.filter(({ item }) => item.oom);
    row.oom = new Set(row.failing.map(({ item }) => item));
  }
  const nameOf = (row) => [row.model || row.catalog, row.input, row.catalog].join(" ");
  return [...rows.values()].sort((one, other) => byName(nameOf(one), nameOf(other)));
}

const BY_NAME = new Intl.Collator("en", { numeric: true });

/** Orders texts by name, and numbers in them by value. */
function byName(one, other) {
  return BY_NAME.compare(one, other);
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

function withoutVerdict(row) {
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
    key: "without",
    title: "Not run or error",
    value: withoutVerdict,
    cell: (row) => withoutVerdict(row) && count(withoutVerdict(row)),
    number: true,
    minor: 2,
    hint: "calls that are unsupported or were not run, and errors",
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

/** Lists models that have the shape of a case of a sweep. */
function shapesPanel(shown) {
  const rows = rowsOf(shown, (source) => source.calls === 0, inputKey).sort((one, other) => other.oom.size - one.oom.size);
  if (!rows.length) return null;
  const columns = [MODEL_NAME, INPUT, OOM_CASES, { key: "of", title: "of cases", number: true, value: (row) => count(row.items.size) }];
  return panel(
    "Models that only have the shape",
    "A shape sweep tries every operator at the shapes of these models: the model has a" +
      " tensor of the shape, but is not known to make the call.",
    scrolling("Models by shape alone", [
      el("thead", el("tr", columns.map((column) => el("th", { scope: "col", class: classOf(column) }, column.title)))),
      el("tbody", rows.map((row) => el("tr", columns.map((column) => cellOf(column, row))))),
    ]),
  );
}
