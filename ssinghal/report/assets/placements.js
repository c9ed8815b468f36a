// Where each call fits that a run placed in several memories, with what room in a core, and what stops it elsewhere.

function placementsView(shown, group) {
  const { memories, models } = group.placements;
  if (group.index) return models.map((model) => placementPanel(model, memories));
  const names = new Set(shown.map((item) => item.name));
  const passing = models
    .filter(({ catalog }) => !state.catalog || state.catalog === catalog)
    .map((model) => ({ ...model, rows: model.rows.filter(([, , , placed]) => placed.some((one) => one && names.has(one[0]))) }))
    .filter(({ rows }) => rows.length > 0);
  return passing.map((model) => placementPanel(model, memories));
}

function placementPanel(model, memories) {
  const title = [model.model, model.input].filter(Boolean).join(" at ") + (model.dtype && `, operands in ${model.dtype}`);
  const rows = model.rows.map(([calls, op, text, placed]) => ({ calls, op, text, placed }));
  return panel(
    title,
    `${model.text && `${model.text}. `}A cell has the bytes of each core's L1 that the call leaves free at its peak, where known, or what stops it.`,
    scrolling(`Placements of ${title}`, [
      el("thead", el("tr", ["Placement", "Fit", "What stops the other calls"].map((text) => el("th", { scope: "col" }, text)))),
      el(
        "tbody",
        memories.map((memory, index) =>
          el("tr", el("td", memory), el("td.number", `${count(model.fit[index])} of ${count(model.calls)}`), el("td", stoppedText(model.stopped[index]))),
        ),
      ),
    ]),
    rows.length > 0 && sortedTable({ columns: placementColumns(memories), rows, order: "-calls", label: `Calls of ${title}` }),
  );
}

function stoppedText(stopped) {
  const parts = Object.entries(stopped).map(([what, calls]) => `${what} ${count(calls)}`);
  return parts.join(", ") || NONE;
}

function placementColumns(memories) {
  return [
    { key: "calls", title: "Calls", value: (row) => row.calls, cell: (row) => count(row.calls), number: true },
    { key: "call", title: "Call", value: (row) => row.text, cell: (row) => el("span.mono", chunks(row.text)), wide: true },
    ...memories.map((memory, index) => ({
      key: `in ${memory}`,
      title: memory,
      value: (row) => row.placed[index] && (row.placed[index][1] || row.placed[index][2]),
      cell: (row) => placementCell(row.placed[index]),
      hint: "free bytes per core at the peak of the call, or what stops it",
    })),
  ];
}

function placementCell(placed) {
  if (!placed) return null;
  const [name, stopper, headroom, reason] = placed;
  const text = stopper || (headroom === null ? "fits" : `fits, ${bytes(headroom)}`);
  return link({ case: name }, text, { title: reason || null, "data-focus": `placed ${name}` });
}
