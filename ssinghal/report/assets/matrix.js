// The matrix of operators (columns) and shapes (rows), with a cell for the verdicts of an operator at a shape.

const MATRIX_ROWS = 40; // shapes per page
const ROOMY = 12; // operators up to which a cell has space for the missing bytes

function matrixView(shown) {
  const table = tabulated(shown);
  const all = state.rows === "all";
  const shapes = all ? table.shapes : table.shapes.filter((row) => row.failing > 0);
  const pages = Math.max(1, Math.ceil(shapes.length / MATRIX_ROWS));
  const page = Math.min(pages, Math.max(1, Number.parseInt(state.page, 10) || 1));
  const rows = shapes.slice((page - 1) * MATRIX_ROWS, page * MATRIX_ROWS);
  const operators = table.operators.filter((op) => rows.some((row) => row.cells.has(op)));
  const hint = "Shapes at which most operators run out of memory come first. Arrow keys move, Enter selects.";
  return panel(
    "Operators × shapes",
    hint,
    choice(all, table.shapes),
    legend(rows),
    rows.length
      ? el("div.scroll.matrix", { onkeydown: moveFocus, class: operators.length <= ROOMY ? "roomy" : null }, grid(operators, rows))
      : el("p.empty", all ? "Nothing here passes the filters." : "No shape fails among the cases that pass the filters."),
    pages > 1 && pager(page, pages, shapes.length, MATRIX_ROWS),
  );
}

/** Returns shapes and operators, most failing cells first. `cells` of a row: operator → its cases, worst first. */
function tabulated(shown) {
  const byShape = new Map();
  for (const item of shown) {
    const row = byShape.get(item.shape) || { shape: item.shape, cells: new Map(), failing: 0 };
    byShape.set(item.shape, row);
    row.cells.set(item.op, [...(row.cells.get(item.op) || []), item]);
  }
  const failures = new Map();
  for (const row of byShape.values()) {
    for (const [op, items] of row.cells) {
      items.sort((one, other) => SEVERITY.indexOf(one.status) - SEVERITY.indexOf(other.status));
      row.failing += items[0].oom;
      failures.set(op, (failures.get(op) || 0) + items[0].oom);
    }
  }
  const operators = [...failures.keys()].sort(
    (one, other) => failures.get(other) - failures.get(one) || (one < other ? -1 : 1),
  );
  return { operators, shapes: [...byShape.values()].sort((one, other) => other.failing - one.failing) };
}

/** Explains the letters of these rows. */
function legend(rows) {
  const cells = rows.flatMap((row) => [...row.cells.values()]);
  const worst = new Map(cells.map(([item]) => [verdictOf(item).name, verdictOf(item)]));
  const mixed = cells.some((items) => items.some((item) => verdictOf(item).name !== verdictOf(items[0]).name));
  return el(
    "ul.keys",
    [...worst.values()].map(({ name, letter, tone }) =>
      el("li", el("span", { class: `cell ${tone}`, "aria-hidden": "true" }, letter), name),
    ),
    mixed && el("li", el("span.cell.other.mixed", { "aria-hidden": "true" }), "cut corner: other cases there have another verdict"),
  );
}

function choice(all, shapes) {
  const failing = shapes.filter((row) => row.failing > 0).length;
  return el(
    "p.choice",
    link({ rows: "", page: "" }, `${plural(failing, "shape")} with failures`, {
      "aria-current": all ? null : "true",
      "data-focus": "failing",
    }),
    link({ rows: "all", page: "" }, `all ${plural(shapes.length, "shape")}`, {
      "aria-current": all ? "true" : null,
      "data-focus": "all",
    }),
  );
}

function grid(operators, rows) {
  const head = operators.map((op) =>
    el("th", { scope: "col", class: "op" }, link({ view: "cases", op }, op, { tabindex: "-1", title: op })),
  );
  let isFirst = true;
  const body = rows.map((row) =>
    el(
      "tr",
      el(
        "th",
        { scope: "row" },
        link({ view: "cases", shape: row.shape }, row.shape, { tabindex: "-1", title: row.shape }),
        row.failing ? el("span.hint", ` ${row.failing}`) : null,
      ),
      operators.map((op) => {
        const items = row.cells.get(op);
        if (!items) return el("td", {});
        const node = el("td", cell(op, row.shape, items, isFirst));
        isFirst = false;
        return node;
      }),
    ),
  );
  return el(
    "table",
    { "aria-label": "Operators by shapes" },
    el("thead", el("tr", el("th", { scope: "col", class: "corner" }, "shape, failing operators"), head)),
    el("tbody", body),
  );
}

/** A cell that selects its case; of several cases, it lists all and selects the worst. */
function cell(op, shape, items, isFirst) {
  const { letter, tone } = verdictOf(items[0]);
  const verdicts = tally(items, (item) => verdictOf(item).name);
  const names = verdicts.map(([name, number]) => (items.length > 1 ? `${number} × ${name}` : name));
  const label = `${op} at ${shape}: ${names.join(", ")}`;
  const listed = items.length > 1 ? { view: "cases", op, shape } : {};
  const selected = items.some((item) => item.name === state.case);
  const lacks = Math.max(...items.map((item) => item.short ?? 0));
  return link({ ...listed, case: items[0].name }, [letter, lacks > 0 && el("span.lacks", { "aria-hidden": "true" }, bytes(lacks))], {
    class: `cell ${tone} ${verdicts.length > 1 ? "mixed" : ""} ${selected ? "selected" : ""}`,
    title: label,
    "aria-label": label,
    tabindex: isFirst ? "0" : "-1",
    "data-case": items.length > 1 ? null : items[0].name,
    "data-focus": `cell ${op} ${shape}`,
  });
}

/** Arrow keys move to the next filled cell in their direction. */
function moveFocus(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const from = event.target.closest("td");
  if (!from || !steps[event.key]) return;
  event.preventDefault();
  const [down, across] = steps[event.key];
  const body = from.closest("tbody");
  let [row, column] = [from.parentElement.sectionRowIndex + down, from.cellIndex + across];
  while (body.rows[row] && body.rows[row].cells[column]) {
    const to = body.rows[row].cells[column].querySelector("a.cell");
    if (to) {
      event.target.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
      return;
    }
    [row, column] = [row + down, column + across];
  }
}
