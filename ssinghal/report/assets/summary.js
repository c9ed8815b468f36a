// What the page of a large run opens on: figures that are in the page, with links to views that load the cases behind them.

/** Returns whether a view of a group shows the summary: the overview of a large run without a filter. */
function opensOnSummary(group, view) {
  return Boolean(group.index) && view === "overview" && isUnfiltered();
}

function summaryView(group) {
  const { summary, total } = indexOf(group);
  return [
    totalsPanel(summary, total, group),
    changesPanel(group),
    summary.faults.length > 0 && faultGroupsPanel(summary),
    operatorsPanel(group),
    summary.models.length > 0 && modelsSummary(summary, group),
    summary.most.length > 0 && listedPanel("What lacks most", "Failing cases that lack most bytes per bank or core, all tensors of the call counted.", summary.most),
    summary.least.length > 0 && listedPanel("Closest to fitting", "Failing cases that lack fewest bytes.", summary.least),
  ];
}

function outcomeName([status, resource]) {
  return verdictOf({ status, resource }).name;
}

function totalsPanel({ outcomes, calls }, total, group) {
  const oom = sum(outcomes.filter(([status]) => status === "oom").map(([, , number]) => number));
  const ordered = [...outcomes].sort(([one], [other]) => SEVERITY.indexOf(one) - SEVERITY.indexOf(other));
  return el(
    "section.panel.lead",
    group.measuresMemory
      ? el("p.headline", el("strong", { class: oom ? "some" : "none" }, count(oom)), ` of ${plural(total, "case")} run out of memory `, el("span.hint", calls[0] > 0 && `${count(calls[1])} of ${countedCalls(calls[0])} that models make.${variantsText(calls[2])}`))
      : el("p.headline", "Memory was not measured: ", plural(total, "case"), " with TTNN's golden functions."),
    el(
      "div.stack",
      { role: "img", "aria-label": ordered.map((outcome) => `${outcomeName(outcome)} ${outcome[2]}`).join(", ") },
      ordered.map(([status, resource, number]) =>
        el("span", { class: `part ${verdictOf({ status, resource }).tone}`, title: `${outcomeName([status, resource])}: ${count(number)}`, style: { "flex-grow": number } }),
      ),
    ),
    el(
      "ul.keys",
      ordered.map(([status, resource, number]) =>
        el(
          "li",
          el("span", { class: `dot ${verdictOf({ status, resource }).tone}`, "aria-hidden": "true" }),
          link({ view: "cases", status, resource }, outcomeName([status, resource])),
          " ",
          el("b", count(number)),
          " ",
          el("span.hint", percent(number, total)),
        ),
      ),
      el("li", "total ", el("b", count(total)), " cases"),
    ),
    el("p.hint", "Each figure is of all cases. A link loads the cases behind it."),
  );
}

/** The operators with their outcomes; a choice of one loads its cases. In a view other than the overview it stays there. */
function operatorsPanel(group) {
  const { summary } = indexOf(group);
  const view = state.view === "overview" ? "cases" : state.view;
  const kinds = new Map(summary.outcomes.map(([status, resource]) => [JSON.stringify([status, resource]), [status, resource]]));
  const rows = summary.operators.map(([op, cases, outcomes, calls]) => ({
    op,
    cases,
    calls,
    numbers: new Map(outcomes.map(([status, resource, number]) => [JSON.stringify([status, resource]), number])),
  }));
  const columns = [
    { key: "op", title: "Operator", value: (row) => row.op, cell: (row) => link({ view, op: row.op }, row.op, { "data-focus": `op ${row.op}` }), kind: "operator" },
    { key: "cases", title: "Cases", value: (row) => row.cases, cell: (row) => count(row.cases), number: true },
    ...[...kinds].map(([key, [status, resource]]) => ({
      key,
      title: verdictOf({ status, resource }).short || outcomeName([status, resource]),
      value: (row) => row.numbers.get(key) || null,
      cell: (row) => row.numbers.has(key) && link({ view, op: row.op, status, resource }, count(row.numbers.get(key))),
      number: true,
    })),
    { key: "calls", title: "Calls OOM", value: (row) => row.calls || null, cell: (row) => row.calls > 0 && count(row.calls), number: true, minor: 1, hint: "calls of models that run out of memory" },
  ];
  return panel("Operators", "All cases of each operator by verdict, most failing cases first.", sortedTable({ columns, rows, order: "", label: "Operators by verdict" }));
}

function modelsSummary({ models }, group) {
  const columns = [
    { key: "model", title: "Model", value: ([model]) => model, cell: ([model, input, catalog]) => [link({ view: "models", model, input, catalog }, model), el("span.hint", ` ${input}`)], wide: true },
    { key: "catalog", title: "Catalog", value: ([, , catalog]) => catalog, minor: 2 },
    { key: "mcases", title: "Cases", value: ([, , , cases]) => cases, cell: ([, , , cases]) => count(cases), number: true, minor: 1 },
    { key: "mcalls", title: "Calls", value: ([, , , , calls]) => calls, cell: ([, , , , calls]) => count(calls), number: true },
    { key: "fit", title: "Calls that fit", value: (row) => row[5], cell: (row) => count(row[5]), number: true },
    { key: "failing", title: "Calls OOM", value: (row) => row[7], cell: (row) => count(row[7]), number: true },
  ];
  return panel(
    "Models",
    `Calls of these models, counted as often as they are made.${variantsText(indexOf(group).summary.calls[2])}`,
    sortedTable({ columns: group.measuresMemory ? columns : columns.slice(0, 4), rows: models, order: "", label: "Models by calls" }),
  );
}

function faultGroupsPanel({ faults, moreFaults }) {
  return panel(
    "Errors",
    "Neither fits nor out of memory: by kind, the most frequent first, each with its first case.",
    el(
      "ul.rows.tall",
      faults.map(([status, what, stage, number, operators, example]) =>
        el(
          "li",
          el("span", badge({ status, resource: "" }), " ", link({ view: "cases", status }, `${plural(number, "case")}`), ` ${[what, stage].filter(Boolean).join(", ")}: ${operators.join(", ")}`),
          el("span.hint", link({ case: `${example[0]}:${example[1]}` }, [example[0], " ", example[2]]), ` ${example[8]}`),
        ),
      ),
    ),
    moreFaults > 0 && el("p.hint", `and ${plural(moreFaults, "more kind")} in memory_analysis_summary.md`),
  );
}

function listedPanel(title, hint, cases) {
  return panel(
    title,
    hint,
    el(
      "ul.rows",
      cases.map(([op, key, shape, id, , resource, missing, calls]) =>
        el(
          "li",
          link({ case: `${op}:${key}` }, [el("b", op), " ", el("span.mono", shape)], { title: id, "data-focus": `case ${op}:${key}` }),
          el("span.figure", size(missing), el("span.hint", ` ${resourceOf(resource).name}${calls ? `, ${plural(calls, "call")}` : ""}`)),
        ),
      ),
    ),
  );
}
