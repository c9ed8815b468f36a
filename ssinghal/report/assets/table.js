// A table that is sorted by its headers and shown in pages; its order and page are part of the state.

const PAGE_ROWS = 100;

/**
 * `columns`: {key, title, value(row), cell(row, rows)?, number?, minor?, kind?, hint?}. Rows are sorted by `value`; columns with `minor` 3,
 * then 2, then 1, are hidden on narrow screens. `order`: a column's key, with the prefix "-" for descending order.
 */
function sortedTable({ columns, rows, order, label, attributes = () => ({}) }) {
  const sort = columns.some((column) => column.key === state.sort.replace(/^-/, "")) ? state.sort : order;
  const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
  const page = Math.min(pages, Math.max(1, Number.parseInt(state.page, 10) || 1));
  const shown = sorted(rows, columns, sort).slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS);
  const head = columns.map((column) => header(column, sort));
  const body = shown.map((row) =>
    el(
      "tr",
      attributes(row),
      columns.map((column) => cellOf(column, row, rows)),
    ),
  );
  return [
    scrolling(label, [el("thead", el("tr", head)), el("tbody", body)]),
    rows.length === 0 && el("p.empty", "Nothing here passes the filters."),
    pages > 1 && pager(page, pages, rows.length),
  ];
}

/** Returns a table that scrolls within its panel where it is too wide; the style shows a shadow where there is more. */
function scrolling(label, parts, attributes = {}) {
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": `${label}: scrolls` },
    el("table", { "aria-label": label, ...attributes }, parts),
  );
}

/** Sorts rows. Missing values come last in either direction; equal ones keep the run's order. */
function sorted(rows, columns, sort) {
  const down = sort.startsWith("-");
  const column = columns.find((one) => one.key === sort.replace(/^-/, ""));
  if (!column) return rows;
  const keyed = rows.map((row) => [column.value(row), row]);
  keyed.sort(([one], [other]) => {
    const absent = isAbsent(one) - isAbsent(other);
    if (absent || one === other) return absent;
    return (one < other ? -1 : 1) * (down ? -1 : 1);
  });
  return keyed.map(([, row]) => row);
}

function isAbsent(value) {
  return value === null || value === undefined || value === "" ? 1 : 0;
}

function header(column, sort) {
  const active = sort.replace(/^-/, "") === column.key;
  const down = active && sort.startsWith("-");
  const next = active ? (down ? column.key : `-${column.key}`) : column.number ? `-${column.key}` : column.key;
  const arrow = el("span.arrow", { "aria-hidden": "true" }, active ? (down ? "▼" : "▲") : "");
  return el(
    "th",
    { scope: "col", class: classOf(column), "aria-sort": active ? (down ? "descending" : "ascending") : null },
    link({ sort: next, page: "" }, [column.title, arrow], { title: column.hint, "data-focus": `sort ${column.key}` }),
  );
}

function cellOf(column, row, rows) {
  const content = column.cell ? column.cell(row, rows) : column.value(row);
  return el("td", { class: classOf(column) }, isAbsent(content) ? NONE : content);
}

function classOf({ number, minor, wide, kind }) {
  return [number && "number", minor && `minor${minor}`, wide && "wide", kind].filter(Boolean).join(" ") || null;
}

function pager(page, pages, total, rows = PAGE_ROWS) {
  const step = (to, text, name) =>
    to < 1 || to > pages
      ? el("span.step.off", text)
      : link({ page: to === 1 ? "" : String(to) }, text, { class: "step", "data-focus": `page ${name}` });
  const last = Math.min(total, page * rows);
  return el(
    "p.pager",
    step(1, "« first", "first"),
    step(page - 1, "‹ previous", "previous"),
    el("span", `${count((page - 1) * rows + 1)}–${count(last)} of ${count(total)}`),
    step(page + 1, "next ›", "next"),
    step(pages, "last »", "last"),
  );
}
