// What runs out, in which operators, at which shapes and sizes, of some of the cases.

/**
 * Panels about failing cases. `items`: these and all others of their part. `weigh(item)`: how much a case counts, named `unit`.
 * `changes`: the state of the views that the panels link to.
 */
function breakdown(oom, items, weigh, changes, unit) {
  const failing = { ...changes, view: "cases", status: "oom" };
  return [
    panel("Operators with most failures", `${capital(unit)}s out of memory, of all ${unit}s of the operator.`, operatorList(oom, items, weigh, failing)),
    panel("Closest to fitting", "The fewest missing bytes per bank or core.", closestList(oom)),
    panel("Sizes of what fails", "Cases out of memory by the bytes of the tensor that has the case's shape.", histogram(oom)),
    panel("Shapes that most operators fail at", null, shapeList(oom, failing)),
  ];
}

function once() {
  return 1;
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** Returns [value, number of cases], most first. `weigh`: how much a case counts. */
function tally(items, valueOf, weigh = once) {
  const counts = new Map();
  for (const item of items) counts.set(valueOf(item), (counts.get(valueOf(item)) || 0) + weigh(item));
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

function operatorList(oom, items, weigh, changes) {
  const all = new Map(tally(items, (item) => item.op, weigh));
  const failing = tally(oom, (item) => item.op, weigh);
  const rows = failing.slice(0, MOST).map(([op, number]) => [op, number, all.get(op)]);
  return [
    barList(
      rows,
      (op) => ({ text: op, tone: "l1", mono: true, changes: { ...changes, op } }),
      (_, of) => `of ${count(of)}`,
    ),
    failing.length > MOST &&
      el("p.hint", link({ view: "matrix", made: changes.made }, `${plural(failing.length - MOST, "more operator")} in the matrix`)),
  ];
}

function shapeList(oom, changes) {
  const operators = new Map();
  for (const item of oom) operators.set(item.shape, (operators.get(item.shape) || new Set()).add(item.op));
  const rows = [...operators].map(([shape, ops]) => [shape, ops.size]).sort(([, one], [, other]) => other - one);
  return barList(
    rows.slice(0, MOST),
    (shape) => ({ text: shape, tone: "l1", mono: true, changes: { ...changes, shape } }),
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
