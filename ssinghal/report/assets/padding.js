// The cost of padding: logical and allocated bytes of every distinct tensor, and the dimension that causes it.

const PADDING_COLUMNS = [
  {
    key: "shape",
    title: "Shape",
    value: (row) => shapeText(row.shape),
    cell: (row) => [caseLink(row.worst, shapeText(row.shape)), el("span.hint.narrow", row.cause)],
    wide: true,
  },
  {
    key: "padded",
    title: "Padded to",
    value: (row) => row.cause,
    cell: (row) => [paddedShape(row.shape, row.padded), el("span.hint.cause", row.cause)],
    wide: true,
    minor: 1,
    hint: "sorted by the cause",
  },
  { key: "kind", title: "Kind", value: (row) => `${row.dtype}, ${row.layout}, ${row.memory}`, minor: 2 },
  { key: "logical", title: "Logical", value: (row) => row.logical, cell: (row) => size(row.logical), number: true, minor: 1 },
  {
    key: "allocated",
    title: "Allocated",
    value: (row) => row.allocated,
    cell: (row) => size(row.allocated),
    number: true,
    minor: 1,
  },
  {
    key: "waste",
    title: "Padding",
    value: (row) => row.allocated - row.logical,
    cell: (row) => size(row.allocated - row.logical),
    number: true,
    hint: "allocated less logical bytes",
  },
  {
    key: "ratio",
    title: "Ratio",
    value: (row) => row.allocated / row.logical,
    cell: (row) => times(row.allocated / row.logical),
    number: true,
    hint: "allocated over logical bytes",
  },
  {
    key: "cases",
    title: "Cases",
    value: (row) => row.cases,
    cell: (row) => count(row.cases),
    number: true,
    minor: 2,
    hint: "cases with the tensor",
  },
  {
    key: "failing",
    title: "OOM",
    value: (row) => row.failing,
    cell: (row) => count(row.failing),
    number: true,
    hint: "of these, out of memory",
  },
];

function paddingView(shown) {
  const rows = paddedTensors(shown);
  return panel(
    "Padding",
    "Each distinct tensor that takes more bytes than its values, with its worst case. Padded dimensions are marked.",
    sortedTable({
      columns: PADDING_COLUMNS,
      rows,
      order: "-waste",
      label: "Padded tensors",
      attributes: (row) => ({ "data-case": row.worst.name, class: row.worst.name === state.case ? "selected" : null }),
    }),
  );
}

/** Returns padded tensors, with their cases. */
function paddedTensors(shown) {
  const rows = new Map();
  for (const item of shown) {
    for (const tensor of new Set(item.placed.map((placed) => placed.tensor))) {
      const row = rows.get(tensor) || { ...tensor, cases: 0, failing: 0, worst: item };
      rows.set(tensor, row);
      row.cases += 1;
      row.failing += item.oom;
      if (SEVERITY.indexOf(item.status) < SEVERITY.indexOf(row.worst.status)) row.worst = item;
    }
  }
  return [...rows.values()].filter((row) => row.cause && row.padded);
}
