// The overview: totals, resources that ran out, operators and shapes with most failures, sizes, and changes.

const MOST = 12; // rows of a list whose other rows are in another view

function overviewView(shown, group) {
  const oom = shown.filter((item) => item.oom);
  return [
    lead(shown, oom),
    el(
      "div.grid",
      panel(
        "What runs out",
        null,
        barList(
          tally(oom, (item) => item.resource),
          (resource) => ({
            text: resourceOf(resource).name,
            tone: resourceOf(resource).tone,
            changes: { view: "cases", status: "oom", resource },
          }),
          (number) => percent(number, oom.length),
        ),
      ),
      changesPanel(group),
      faultsPanel(shown),
      panel("Operators with most failures", "Cases out of memory, of all cases of the operator.", operatorList(shown, oom)),
      panel("Sizes of what fails", "Cases out of memory by the bytes of the tensor that has the case's shape.", histogram(oom)),
      panel("Shapes that most operators fail at", null, shapeList(oom)),
      panel("Closest to fitting", "The fewest missing bytes per bank or core.", closestList(oom)),
    ),
  ];
}

/** States how many failing cases models call; the others are from shape sweeps, or given by hand. */
function madeByModels(oom) {
  const called = oom.filter((item) => item.calls);
  const others = "from shape sweeps, or given by hand.";
  if (!called.length) return el("span.hint", `No model is known to make any of these calls: they are ${others}`);
  const calls = called.reduce((sum, item) => sum + item.calls, 0);
  return [
    link({ view: "cases", status: "oom", made: "models" }, `${count(called.length)} of them`),
    ` are called by models, ${plural(calls, "call")} in total`,
    oom.length > called.length && `; the others are ${others}`,
  ];
}

/** Shows the main number, and all cases by status. */
function lead(shown, oom) {
  const pairs = new Set(oom.map((item) => `${item.op} ${item.shape}`)).size;
  const shapes = new Set(oom.map((item) => item.shape)).size;
  const operators = new Set(oom.map((item) => item.op)).size;
  const statuses = tally(shown, (item) => item.status).sort(
    ([one], [other]) => SEVERITY.indexOf(one) - SEVERITY.indexOf(other),
  );
  const summary = oom.length
    ? `${plural(pairs, "pair")} of operator and shape: ${plural(operators, "operator")}, ${plural(shapes, "shape")}.`
    : shown.length
      ? "Nothing runs out of memory."
      : "No case passes the filters.";
  return el(
    "section.panel.lead",
    el(
      "p.headline",
      el("strong", count(oom.length)),
      ` of ${plural(shown.length, "case")} run out of memory `,
      el("span.hint", summary),
    ),
    oom.length > 0 && el("p", madeByModels(oom)),
    el(
      "div.stack",
      { role: "img", "aria-label": statuses.map(([status, number]) => `${status} ${number}`).join(", ") },
      statuses.map(([status, number]) =>
        el("span", {
          class: `part ${status === "oom" ? "l1" : STATUSES[status].tone}`,
          title: `${STATUSES[status].name}: ${count(number)}`,
          style: { "flex-grow": number },
        }),
      ),
    ),
    el(
      "ul.keys",
      statuses.map(([status, number]) =>
        el(
          "li",
          el("span", { class: `dot ${status === "oom" ? "l1" : STATUSES[status].tone}`, "aria-hidden": "true" }),
          link({ view: "cases", status }, STATUSES[status].name),
          " ",
          el("b", count(number)),
          " ",
          el("span.hint", percent(number, shown.length)),
        ),
      ),
      el("li", "total ", el("b", count(shown.length))),
    ),
  );
}

/** Returns [value, number of cases], most first. */
function tally(items, valueOf) {
  const counts = new Map();
  for (const item of items) counts.set(valueOf(item), (counts.get(valueOf(item)) || 0) + 1);
  return [...counts].sort(([, one], [, other]) => other - one);
}

/**
 * Bars with their numbers. `describe(value)`: {text, tone, changes, mono?} of a bar; `figure(number, of)`: the text next to its
 * number.
 */
function barList(counted, describe, figure) {
  if (!counted.length) return el("p.empty", "None.");
  const most = counted[0][1];
  return el(
    "ul.bars",
    counted.map(([value, number, of]) => {
      const { text, tone, changes, mono } = describe(value);
      return el(
        "li",
        link(changes, text, { class: mono ? "name mono" : "name", title: text }),
        el("span.rail", el("span", { class: `fill ${tone}`, style: { width: `${((100 * number) / most).toFixed(2)}%` } })),
        el("span.figure", el("b", count(number)), el("span.hint", ` ${figure(number, of)}`)),
      );
    }),
  );
}

function operatorList(shown, oom) {
  const all = new Map(tally(shown, (item) => item.op));
  const failing = tally(oom, (item) => item.op);
  const rows = failing.slice(0, MOST).map(([op, number]) => [op, number, all.get(op)]);
  return [
    barList(
      rows,
      (op) => ({ text: op, tone: "l1", mono: true, changes: { view: "cases", status: "oom", op } }),
      (number, of) => `of ${count(of)}`,
    ),
    failing.length > MOST &&
      el("p.hint", link({ view: "matrix" }, `${plural(failing.length - MOST, "more operator")} in the matrix`)),
  ];
}

function shapeList(oom) {
  const operators = new Map();
  for (const item of oom) operators.set(item.shape, (operators.get(item.shape) || new Set()).add(item.op));
  const rows = [...operators].map(([shape, ops]) => [shape, ops.size]).sort(([, one], [, other]) => other - one);
  return barList(
    rows.slice(0, MOST),
    (shape) => ({
      text: shape,
      tone: "l1",
      mono: true,
      changes: { view: "cases", status: "oom", shape },
    }),
    (number) => (number === 1 ? "operator" : "operators"),
  );
}

function closestList(oom) {
  const near = oom
    .filter((item) => item.short !== null)
    .sort((one, other) => one.short - other.short)
    .slice(0, MOST);
  if (!near.length) return el("p.empty", "None.");
  return el(
    "ul.rows",
    near.map((item) =>
      el(
        "li",
        caseLink(item, [el("b", item.op), " ", el("span.mono", item.shape)]),
        el("span.figure", size(item.short), el("span.hint", ` ${resourceOf(item.resource).name}`)),
      ),
    ),
  );
}

/** Two columns, logical and allocated, for each bin of a factor of four. */
function histogram(oom) {
  const sizes = ["logical", "allocated"].map((name) => oom.map((item) => item[name]).filter((value) => value > 0));
  const bins = sizes.map((values) => tally(values, (value) => Math.floor(Math.log2(value) / 2)));
  const numbers = bins.flatMap((counted) => counted.map(([bin]) => bin));
  if (!numbers.length) return el("p.empty", "None.");
  const [first, last] = [Math.min(...numbers), Math.max(...numbers)];
  const most = Math.max(...bins.flatMap((counted) => counted.map(([, number]) => number)));
  const range = (bin) => `${bytes(4 ** bin)} to ${bytes(4 ** (bin + 1))}`;
  const column = (bin, index) => {
    const number = new Map(bins[index]).get(bin) || 0;
    const name = ["logical", "allocated"][index];
    return (
      number > 0 &&
      el(
        "span",
        {
          class: `column ${name}`,
          title: `${range(bin)} ${name}: ${plural(number, "case")}`,
          style: { height: `${((100 * number) / most).toFixed(2)}%` },
        },
        el("span.top", count(number)),
      )
    );
  };
  const all = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  return [
    el(
      "ul.keys",
      ["logical", "allocated"].map((name) => el("li", el("span", { class: `dot ${name}`, "aria-hidden": "true" }), name)),
    ),
    el(
      "div.histogram",
      all.map((bin) =>
        el(
          "div.bin",
          el("div.pair", column(bin, 0), column(bin, 1)),
          el(
            "span.from",
            bytes(4 ** bin)
              .split(" ")
              .map((word) => el("span", word)),
          ),
        ),
      ),
    ),
    el("p.hint", "Each bin starts at the size below it and ends at four times that size."),
  ];
}

function changesPanel(group) {
  const changes = DATA.changes;
  if (!changes) return panel("What changed", null, el("p.empty", "No earlier run to compare with."));
  if (!changes.compared.includes(group.setting))
    return panel("What changed", `Since ${changes.before}.`, el("p.empty", `That run has no records of ${group.setting}.`));
  const here = changes.found.filter(([, setting]) => setting === group.setting);
  const kinds = changes.kinds.filter(([kind]) => here.some(([one]) => one === kind));
  return panel(
    "What changed",
    `Since ${changes.before}, regardless of the filters.`,
    changes.notes.map((note) => el("p.note", note)),
    kinds.length
      ? kinds.map(([kind, title, worse]) =>
          changesOf(
            kind,
            title,
            worse,
            here.filter(([one]) => one === kind),
          ),
        )
      : el("p.empty", "No verdict and no size has changed."),
  );
}

function changesOf(kind, title, worse, changes) {
  return el(
    "details",
    { class: `changes ${worse ? "bad" : ""}`, open: worse },
    el("summary", el("b", count(changes.length)), ` ${kind}: ${title}`),
    el(
      "ul.rows.tall",
      changes
        .slice(0, PAGE_ROWS)
        .map(([, , op, key, id, before, after, figures]) =>
          el(
            "li",
            link({ case: `${op}:${key}` }, [el("b", op), " ", el("span.mono", id)]),
            el("span.hint", figures || [before || "no record", " → ", after || "no record"]),
          ),
        ),
    ),
    changes.length > PAGE_ROWS && el("p.hint", `and ${count(changes.length - PAGE_ROWS)} more: ssinghal compare lists all`),
  );
}

/** Lists errors, crashes, timeouts, mismatches, and cases that left memory allocated. */
function faultsPanel(shown) {
  const faults = shown.filter((item) => item.fault || item.left);
  if (!faults.length) return null;
  return panel(
    "Errors",
    "Neither fits nor out of memory, or memory was left allocated.",
    el(
      "ul.rows.tall",
      faults
        .slice(0, PAGE_ROWS)
        .map((item) =>
          el(
            "li",
            caseLink(item, [badge(item), " ", el("b", item.op), " ", el("span.mono", item.shape)]),
            el("span.hint", item.left ? `left ${exact(item.left)} allocated` : item.sentence),
          ),
        ),
    ),
    faults.length > PAGE_ROWS && el("p.hint", `and ${count(faults.length - PAGE_ROWS)} more`),
  );
}
