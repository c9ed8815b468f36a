// The table of cases, with search, sorting and filters.

const CASE_COLUMNS = [
  {
    key: "op",
    title: "Operator",
    value: (item) => item.op,
    kind: "operator",
    cell: (item) => [caseLink(item, item.op), el("span.narrow", caseId(item), remedyCell(item))],
  },
  { key: "id", title: "Case", value: (item) => item.id, cell: (item) => caseId(item), kind: "case", minor: 1 },
  { key: "status", title: "Verdict", value: (item) => SEVERITY.indexOf(item.status), cell: badge },
  { key: "stage", title: "Stage", value: (item) => item.stage, minor: 3, hint: "the tensor or program that was being placed or run" },
  {
    key: "logical",
    title: "Logical",
    value: (item) => item.logical,
    cell: (item) => size(item.logical),
    number: true,
    minor: 3,
    hint: "bytes of the values in the tensor of the case's shape",
  },
  {
    key: "allocated",
    title: "Allocated, all banks",
    value: (item) => item.allocated,
    cell: (item) => size(item.allocated),
    number: true,
    minor: 3,
    hint: "the same tensor on the device, with padding",
  },
  {
    key: "asked",
    title: "Requested, all banks",
    value: (item) => item.asked,
    cell: (item) => size(item.asked),
    number: true,
    minor: 3,
    hint: "bytes of the tensor that did not fit, on the device",
  },
  {
    key: "need",
    title: "Requested per bank",
    value: (item) => item.need,
    cell: (item) => size(item.need),
    number: true,
    minor: 2,
    hint: "bytes per bank, or program bytes per core, that TTNN could not allocate",
  },
  {
    key: "short",
    title: "Short per bank",
    value: (item) => item.short,
    cell: (item) => size(item.short),
    number: true,
    hint: "missing bytes per bank or core",
  },
  {
    key: "load",
    title: "Fullest bank",
    value: (item) => item.load,
    cell: (item, rows) => loadMeter(item.load, scaleOf(rows)),
    number: true,
    minor: 2,
    hint: "bytes taken and requested by the call, relative to a bank, whose end is the line",
  },
  {
    key: "remedy",
    title: "What makes it fit",
    value: (item) => item.helps[0] || null,
    cell: remedyCell,
    minor: 1,
    hint: "the first change that is known to make the call fit, by search, probe or arithmetic",
  },
  {
    key: "calls",
    title: "Calls",
    value: (item) => item.calls || null,
    cell: (item) => (item.calls ? count(item.calls) : null),
    number: true,
    minor: 2,
    hint: "how often models make exactly this call",
  },
];

function casesView(shown) {
  return panel(
    "Cases",
    null,
    sortedTable({
      columns: CASE_COLUMNS,
      rows: shown,
      order: "status",
      label: "Cases",
      attributes: (item) => ({ "data-case": item.name, class: item.name === state.case ? "selected" : null }),
    }),
  );
}

function caseId(item) {
  return el("span.id", { title: item.id }, chunks(item.id));
}

/** A link that selects the case and keeps the view. */
function caseLink(item, text, changes = {}) {
  return link({ ...changes, case: item.name }, text, { "data-focus": `case ${item.name}` });
}
