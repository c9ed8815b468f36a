// The overview: first what models call, with the layers that fail and what makes them fit; shape sweeps after it, apart.

const MOST = 8; // rows of a list whose other rows are in another view
const LAYERS = 3; // failing calls listed of each model, if several fail

function overviewView(shown, group) {
  const called = shown.filter((item) => callsOf(item) > 0);
  const others = shown.filter((item) => callsOf(item) === 0);
  return [
    called.length > 0 && modelsPart(called, group),
    called.length > 0 && changesPanel(group),
    faultsPanel(shown),
    others.length > 0 && sweepsPart(others, called.length > 0, group),
    called.length === 0 && changesPanel(group),
    shown.length === 0 && panel("Overview", null, el("p.empty", "No case passes the filters.")),
  ];
}

/** Shows the calls of models: how many fail, in which layers, and what runs out. All are counted as often as they are made. */
function modelsPart(items, group) {
  const oom = items.filter((item) => item.oom);
  const calls = sum(items.map(callsOf));
  const failing = sum(oom.map(callsOf));
  const models = oneCapture(modelRows(items));
  const failingModels = models.filter((row) => row.failingCalls > 0);
  return [
    el(
      "section.panel.lead",
      group.measuresMemory
        ? el(
            "p.headline",
            el("strong", { class: failing ? "some" : "none" }, count(failing)),
            ` of ${countedCalls(calls)} that models make ${failing === 1 ? "runs" : "run"} out of memory `,
            el("span.hint", scope(oom, models, failingModels), variantsText(madeCalls(items))),
          )
        : agreeing(items, callsOf, `${countedCalls(calls)} that models make`),
      stack(items, callsOf, { made: "models" }, `${callUnit()}s`),
      oom.length > 0 && remedyLine(oom),
    ),
    oom.length > 0 && layersPanel(failingModels),
    oom.length > 0 && el("div.grid", breakdown(oom, items, callsOf, { made: "models" }, callUnit())),
  ];
}

/** States what a run without measured memory found: how many of `all` give the values of golden functions. */
function agreeing(items, weigh, all) {
  const number = sum(items.filter((item) => item.status === "agrees").map(weigh));
  return el(
    "p.headline",
    "Memory was not measured: ",
    el("strong", count(number)),
    ` of ${all} ${number === 1 ? "agrees" : "agree"} with TTNN's golden functions.`,
  );
}

/** Returns one row of each model and input: of several captures the one with most failing calls. */
function oneCapture(rows) {
  const best = new Map();
  for (const row of rows) {
    const other = best.get(inputKey(row));
    if (!other || row.failingCalls > other.failingCalls) best.set(inputKey(row), row);
  }
  return [...best.values()];
}

function scope(oom, models, failing) {
  if (!oom.length) return models.length > 1 ? `In ${count(models.length)} models by input size.` : "In one model.";
  const where = models.length > 1 ? `${count(failing.length)} of ${count(models.length)} models by input size` : "one model";
  return `In ${where}: ${plural(new Set(oom.map((item) => item.call)).size, "distinct call")} of ${plural(new Set(oom.map((item) => item.op)).size, "operator")}.`;
}

/** Shows cases that no model is known to make. `second`: after those that models make. */
function sweepsPart(items, second, group) {
  const oom = items.filter((item) => item.oom);
  const pairs = new Set(oom.map((item) => `${item.op} ${item.shape}`)).size;
  return el(
    "section.sweeps",
    { "aria-label": "Shape sweeps" },
    el("h2", second ? "Shape sweeps" : "Shape sweeps and calls given by hand"),
    el(
      "p.hint",
      "Operators tried at many shapes, or calls given by hand: no model is known to make them.",
      second && " They are not part of the figures above.",
    ),
    el(
      "section.panel.lead.minor",
      group.measuresMemory
        ? el(
            "p.headline",
            el("strong", count(oom.length)),
            ` of ${plural(items.length, "case")} run out of memory `,
            oom.length > 0 && el("span.hint", `${plural(pairs, "pair")} of operator and shape.`),
          )
        : agreeing(items, once, plural(items.length, "case")),
      stack(items, once, { made: "nobody" }, "cases"),
      oom.length > 0 && remedyLine(oom),
    ),
    oom.length > 0 && el("div.grid", breakdown(oom, items, once, { made: "nobody" }, "case")),
  );
}

/** Shows all outcomes as parts of one bar, failures by what ran out, with a key that links to them. */
function stack(items, weigh, changes, unit) {
  const outcomes = new Map(items.map((item) => [verdictOf(item).name, item]));
  const total = sum(items.map(weigh));
  const place = ([, item]) => SEVERITY.indexOf(item.status);
  const numbers = new Map(tally(items, (item) => verdictOf(item).name, weigh));
  const rows = [...outcomes]
    .sort((one, other) => place(one) - place(other) || numbers.get(other[0]) - numbers.get(one[0]))
    .map(([name, { status, resource }]) => ({ name, status, resource, tone: verdictOf({ status, resource }).tone, number: numbers.get(name) }));
  return [
    el(
      "div.stack",
      { role: "img", "aria-label": rows.map(({ name, number }) => `${name} ${number}`).join(", ") },
      rows.map(({ name, tone, number }) =>
        el("span", { class: `part ${tone}`, title: `${name}: ${count(number)} ${unit}`, style: { "flex-grow": number } }),
      ),
    ),
    el(
      "ul.keys",
      rows.map(({ name, status, resource, tone, number }) =>
        el(
          "li",
          el("span", { class: `dot ${tone}`, "aria-hidden": "true" }),
          link({ ...changes, view: "cases", status, resource }, name),
          " ",
          el("b", count(number)),
          " ",
          el("span.hint", percent(number, total)),
        ),
      ),
      el("li", "total ", el("b", count(total)), ` ${unit}`),
    ),
  ];
}

/** States how many failing cases have a remedy, the most frequent first, and what is not known. */
function remedyLine(oom) {
  const firsts = tally(
    oom.filter((item) => item.helps.length),
    (item) => item.helps[0],
  );
  const found = oom.filter((item) => item.helps.length).length;
  const none = oom.filter((item) => !item.helps.length && item.searched).length;
  const open = oom.length - found - none;
  const cases = oom.length === 1 ? "the failing case" : `the ${count(oom.length)} failing cases`;
  if (open === oom.length) {
    return el("p.remedies.hint", `What makes ${cases} fit is not known yet: ssinghal report --remedies searches.`);
  }
  return el(
    "p.remedies",
    el("b", found ? `${helped(found, oom.length)} with a change` : `No change is known that makes ${cases} fit`),
    found > 0 && ": ",
    firsts
      .slice(0, 4)
      .map(([remedy, number], index) => [
        index ? ", " : "",
        link({ view: "cases", status: "oom", remedy }, remedy),
        " ",
        el("b", count(number)),
      ]),
    firsts.length > 4 && `, ${plural(firsts.length - 4, "other change")} ${count(sum(firsts.slice(4).map(([, n]) => n)))}`,
    none > 0 && `; ${count(none)} searched without finding one`,
    open > 0 && `; ${count(open)} not searched (ssinghal report --remedies searches)`,
    ".",
  );
}

/** States how many of the failing cases fit: with a verb in the singular where one does. */
function helped(found, failing) {
  if (failing === 1) return "The failing case fits";
  const number = found === failing ? "All" : count(found);
  return `${number} of the ${count(failing)} failing cases ${found === 1 ? "fits" : "fit"}`;
}

/** Lists the failing layers of models: those that lack most bytes first. */
function layersPanel(models) {
  const ordered = [...models].sort((first, second) => second.failingCalls - first.failingCalls);
  const each = ordered.length === 1 ? MOST : LAYERS;
  const more = ordered.slice(MOST);
  return panel(
    "Layers that run out of memory",
    "Of each model, the calls that lack most bytes.",
    scrolling("Layers that run out of memory", [
      el("thead", el("tr", LAYER_COLUMNS.map(([title, kind]) => el("th", { scope: "col", class: kind || null }, title)))),
      ordered.slice(0, MOST).map((row) => layerRows(row, each)),
    ]),
    more.length > 0 && el("p.hint", link({ view: "models" }, `${plural(more.length, "more model")} with failing calls`)),
  );
}

const LAYER_COLUMNS = [
  ["Module", ""],
  ["Call", ""],
  ["Verdict", "minor1"],
  ["Calls", "number minor2"],
  ["Short per bank", "number"],
  ["What makes it fit", "minor1"],
];

function layerRows(row, most) {
  const failing = [...row.failing].sort((first, second) => (second.item.short ?? -1) - (first.item.short ?? -1));
  const rest = failing.length - most;
  const changes = { view: "models", model: row.model, input: row.input, catalog: row.capture || "" };
  return el(
    "tbody",
    el(
      "tr.group",
      el(
        "th",
        { scope: "rowgroup", colspan: LAYER_COLUMNS.length },
        link(changes, row.model || `catalog ${row.catalog}`),
        el("span.hint", row.input && ` ${row.input}`, row.capture && ` ${row.capture}`),
        " ",
        el("span.much", el("b", count(row.failingCalls)), ` of ${countedCalls(row.calls)} out of memory`),
      ),
    ),
    failing.slice(0, most).map(({ item, source }) =>
      el(
        "tr",
        { "data-case": item.name, class: item.name === state.case ? "selected" : null },
        el("td", modulesCell(source)),
        el("td", caseLink(item, item.op), " ", el("span.mono.shape", item.shape), el("span.narrow", remedyCell(item))),
        el("td.minor1", badge(item)),
        el("td.number.minor2", count(source.calls)),
        el("td.number.lack", size(item.short)),
        el("td.minor1", remedyCell(item)),
      ),
    ),
    rest > 0 && el("tr", el("td", { colspan: LAYER_COLUMNS.length }, link(changes, `${plural(rest, "more failing call")} by module`))),
  );
}
