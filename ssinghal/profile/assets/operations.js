// The table of operations: sorted by any column, filtered by words, some rows at a time.

const MORE = 500; // at a time

/** Returns the panel of operations. */
function operationsPanel(p) {
  const { calls } = p;
  const size = (key, title, values) => ({ key, title, values, isBytes: true });
  const columns = [
    { key: "number", title: "Call", values: calls.number },
    { key: "name", title: "Operation", text: (row) => p.texts[calls.name[row]] },
    { key: "line", title: "Line", text: (row) => lineOf(p, p.stacks[calls.stack[row]]) },
    ...p.used.map((memory) => size(memory, `${MEMORIES[memory].title} peak`, calls.peak[memory])),
    size("program", "Program buffers", calls.program),
    size("headroom", "Headroom", calls.headroom),
    { key: "us", title: "Host µs", values: calls.us },
  ];
  const order = { key: p.used.includes("l1") ? "l1" : p.used[0] ?? "number", isDown: true };
  let limit = SHOWN;
  const words = calls.name.map((name, row) => `${name} ${calls.stack[row]}`); // few are different
  const texts = new Map();
  const search = el("input", { type: "search", placeholder: "operation, file, line or function", "aria-label": "Filter operations", oninput: restart });
  const failed = el("input", { type: "checkbox", onchange: restart });
  const matches = el("span.hint", { role: "status" });
  const heads = columns.map((column) =>
    el("th", { scope: "col", class: column.values && "number" }, el("button.sort", { type: "button", onclick: () => sortBy(column) }, column.title)),
  );
  const body = el("tbody");
  const more = el("button", { type: "button", onclick: () => { limit += MORE; draw(); } });

  function textOf(row) {
    const key = words[row];
    if (!texts.has(key)) texts.set(key, `${p.texts[calls.name[row]]} ${p.stacks[calls.stack[row]].map((site) => siteText(p, site)).join(" ")}`.toLowerCase());
    return texts.get(key);
  }
  function sortBy({ key, isBytes }) {
    const isHeadroom = key === "headroom"; // the least is the most interesting
    order.isDown = order.key === key ? !order.isDown : Boolean((isBytes && !isHeadroom) || key === "us");
    order.key = key;
    restart();
  }
  function restart() {
    limit = SHOWN;
    draw();
  }
  function draw() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const passing = [];
    for (let row = 0; row < p.rows; row++) {
      if (failed.checked && calls.error[row] < 0) continue;
      if (!wanted.length || wanted.every((word) => textOf(row).includes(word))) passing.push(row);
    }
    const { values, text } = columns.find((column) => column.key === order.key);
    const sign = order.isDown ? -1 : 1;
    passing.sort((one, other) => {
      if (text) return sign * (text(one) < text(other) ? -1 : text(one) > text(other) ? 1 : 0) || one - other;
      const [a, b] = [values[one], values[other]];
      if (a === null || b === null) return (a === null) - (b === null) || one - other; // unknown ones last
      return sign * (a - b) || one - other;
    });
    body.replaceChildren(...passing.slice(0, limit).map(row));
    matches.textContent = `${count(passing.length)} of ${plural(p.rows, "call")}`;
    more.hidden = passing.length <= limit;
    more.textContent = `Show ${count(Math.min(MORE, passing.length - limit))} more`;
    heads.forEach((head, place) => {
      if (columns[place].key === order.key) head.setAttribute("aria-sort", order.isDown ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }
  function row(row) {
    const cells = columns.map(({ key, values, text, isBytes }) => {
      if (key === "number") return el("td.number", el("button.go", { type: "button", title: "Select it", onclick: () => show(row) }, count(values[row])));
      if (text) return el("td.mono", { class: key === "line" && "wide" }, text(row), key === "name" && calls.error[row] >= 0 && el("span.exact.lack", "✕ raised"));
      if (!isBytes) return el("td.number", count(values[row]));
      const value = values[row];
      return el("td.number", { class: value < 0 && "lack" }, key === "headroom" && value !== null && calls.unknown[row] > 0 && "≤ ", bytes(value), Math.abs(value ?? 0) >= 1024 && el("span.exact", exact(value)));
    });
    return el("tr", cells);
  }
  function show(row) {
    select(row);
    document.getElementById("call").scrollIntoView({ block: "start" });
  }
  draw();
  return panel(
    "Operations",
    "Peaks are of the buffers that were recorded. Headroom: between the program buffers of the fullest core and the lowest buffer in L1; ≤ where TTNN did not report some of its program buffers, which count as 0 B; – where no program ran.",
    el("p.tools", search, calls.error.some((error) => error >= 0) && el("label", failed, " that raised"), matches),
    el("div.scroll", { tabindex: "0", role: "group", "aria-label": "Operations: scrolls" }, el("table", { "aria-label": "Operations" }, el("thead", el("tr", heads)), body)),
    more,
  );
}
