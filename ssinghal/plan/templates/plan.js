// Adds to each plan a pointer over its timelines that describes a step, and a table of all steps that is filtered by text.

const DATA = JSON.parse(document.getElementById("data").textContent);
const ROWS = 100; // at first: a browser is slow with more
const MORE = 500; // at a time
const AFTER = "after the first failure: not evidence";
const STAND_IN =
  "The call failed and has no result. For the calls after it, an empty tensor of the result's shape was allocated if it fitted;" +
  " the bytes after this step include it.";

for (const section of document.querySelectorAll("[data-plan]")) {
  const plan = DATA.plans[Number(section.dataset.plan)];
  const pointer = timelines([...section.querySelectorAll("[data-plot]")], plan);
  const details = section.querySelector("[data-steps]");
  details?.addEventListener("toggle", () => stepTable(details, plan, pointer), { once: true });
}
window.addEventListener("hashchange", unfoldTarget);
unfoldTarget();

/** Unfolds the plan that a link of the summary leads to. */
function unfoldTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (!target?.matches("details.plan")) return;
  target.open = true;
  target.scrollIntoView();
}

/** Returns a step of `plan` by its place in the columns. */
function stepOf(plan, place) {
  const columns = plan.steps;
  const dram = columns.dram[place];
  const cache = columns.cache[place];
  return {
    place,
    number: columns.number[place],
    operator: DATA.texts[columns.operator[place]],
    at: DATA.texts[columns.at[place]],
    status: DATA.texts[columns.status[place]],
    dram,
    within: columns.within[place],
    cache,
    activations: dram - cache - plan.weights,
    l1: columns.l1[place],
    small: columns.small[place],
    l1After: columns.l1After[place],
    l1Total: columns.l1Total[place],
    programs: columns.programs[place],
    placed: DATA.texts[columns.placed[place]],
    isFirst: columns.number[place] === plan.first,
    isAfter: plan.first !== null && columns.number[place] > plan.first,
    said: plan.said[columns.number[place]],
  };
}

function status(step) {
  return el("span", { class: `badge ${DATA.tones[step.status] || "other"}` }, step.status.replaceAll("_", " "));
}

/** Lets `figures` respond together to mouse, touch and keys; returns a function that moves their pointers to the step at a place. */
function timelines(figures, plan) {
  if (!figures.length) return () => {};
  const parts = figures.map((figure) => ({
    figure,
    field: figure.querySelector(".field"),
    cursor: figure.querySelector(".cursor"),
    readout: figure.querySelector(".readout"),
    isL1: figure.dataset.plot === "l1",
  }));
  const total = plan.steps.number.length;
  let kept = Math.max(0, plan.steps.number.indexOf(plan.start));

  function show(place) {
    const step = stepOf(plan, place);
    const x = `${(100 * (place + 0.5)) / total}%`;
    for (const { field, cursor, readout, isL1 } of parts) {
      const size = isL1 ? step.l1Total : step.dram;
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      field.setAttribute("aria-valuenow", place);
      field.setAttribute("aria-valuetext", `step ${step.number} ${step.operator} in ${step.at}: ${both(size)}, ${step.status}`);
      readout.replaceChildren(...(isL1 ? descriptionOfL1(step, plan) : description(step, plan)));
    }
  }
  function keep(place) {
    kept = Math.min(total - 1, Math.max(0, place));
    show(kept);
  }
  function under(field, event) {
    const box = field.getBoundingClientRect();
    return Math.min(total - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * total)));
  }
  const page = Math.max(1, Math.round(total / 20));
  const moves = {
    ArrowRight: () => kept + 1,
    ArrowUp: () => kept + 1,
    ArrowLeft: () => kept - 1,
    ArrowDown: () => kept - 1,
    PageUp: () => kept + page,
    PageDown: () => kept - page,
    Home: () => 0,
    End: () => total - 1,
  };
  for (const { field } of parts) {
    field.addEventListener("pointermove", (event) => show(under(field, event)));
    field.addEventListener("pointerleave", () => show(kept));
    field.addEventListener("click", (event) => keep(under(field, event)));
    field.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      keep(move());
    });
  }
  show(kept);
  return (place) => {
    keep(place);
    parts[0].figure.scrollIntoView({ block: "center" });
    parts[0].field.focus({ preventScroll: true });
  };
}

/** Describes the L1 of a core at a step in elements of the page. */
function descriptionOfL1(step, plan) {
  const parts = [
    ["most within the step, program buffers included", step.l1Total],
    ["free then", plan.bank - step.l1Total],
    ["most of tensors alone", step.l1],
    ["largest program buffers", step.programs],
  ];
  return [
    el("span.what", `step ${step.number} `, el("b.mono", step.operator), " in ", el("span.mono", step.at || "(top)"), " ", status(step)),
    el("span.much", "L1, per core: ", el("b", both(step.l1After)), " of tensors after the step"),
    el("span.parts", parts.map(([name, value]) => el("span", `${name} `, el("span.figure", both(value))))),
    step.placed && el("span.placement", step.placed),
    step.isAfter && el("span.lack", AFTER),
  ].filter(Boolean);
}

/** Describes a step in elements of the page. */
function description(step, plan) {
  const parts = [
    ["weights", plan.weights],
    ["program cache", step.cache],
    ["activations", step.activations],
    ["peak within the call", step.within],
    ["L1 tensors", step.l1],
    ["L1_SMALL", step.small],
  ];
  return [
    el("span.what", `step ${step.number} `, el("b.mono", step.operator), " in ", el("span.mono", step.at || "(top)"), " ", status(step)),
    el("span.much", "DRAM, per bank: ", el("b", both(step.dram)), " after the step"),
    el("span.parts", parts.map(([name, value]) => el("span", `${name} `, el("span.figure", both(value))))),
    step.said && el("span.lack", step.said),
    step.isFirst && el("span.lack", STAND_IN),
    step.isAfter && el("span.lack", AFTER),
  ].filter(Boolean);
}

const COLUMNS = [
  { key: "number", title: "Step", number: true },
  { key: "operator", title: "Operator" },
  { key: "at", title: "Module" },
  { key: "status", title: "Verdict" },
  { key: "dram", title: "DRAM after", number: true, isBytes: true },
  { key: "within", title: "Peak within", number: true, isBytes: true },
  { key: "activations", title: "Activations", number: true, isBytes: true },
  { key: "cache", title: "Program cache", number: true, isBytes: true },
  { key: "l1", title: "L1 within", number: true, isBytes: true },
  { key: "small", title: "L1_SMALL", number: true, isBytes: true },
];

/** Fills `details` when it is opened: a search field and a table of some rows at a time, sorted by its headers. */
function stepTable(details, plan, pointer) {
  const steps = plan.steps.number.map((_, place) => stepOf(plan, place));
  for (const step of steps) step.text = `${step.number} ${step.operator} ${step.at} ${step.status.replaceAll("_", " ")}`.toLowerCase();
  const order = { key: "number", down: false };
  let limit = ROWS;
  const search = el("input", { type: "search", placeholder: "operator, module or verdict", "aria-label": "Filter steps", oninput: restart });
  const matches = el("span.hint", { role: "status" });
  const heads = COLUMNS.map((column) => header(column));
  const body = el("tbody");
  const more = el("button", { type: "button", onclick: showMore });
  const table = el("table", { "aria-label": "Steps" }, el("thead", el("tr", heads.map((head) => head.cell))), body);
  details.append(
    el("p.tools", search, matches),
    el("div.scroll", { tabindex: "0", role: "group", "aria-label": "Steps: scrolls" }, table),
    more,
  );

  function header(column) {
    const button = el("button.sort", { type: "button", onclick: () => sortBy(column) }, column.title);
    return { column, cell: el("th", { scope: "col", class: column.number && "number" }, button) };
  }
  function sortBy({ key, isBytes }) {
    order.down = order.key === key ? !order.down : Boolean(isBytes);
    order.key = key;
    restart();
  }
  function restart() {
    limit = ROWS;
    draw();
  }
  function showMore() {
    limit += MORE;
    draw();
  }
  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const passing = steps.filter((step) => words.every((word) => step.text.includes(word)));
    const { key, down } = order;
    passing.sort((one, other) => (one[key] === other[key] ? one.place - other.place : (one[key] < other[key]) === down ? 1 : -1));
    body.replaceChildren(...passing.slice(0, limit).map(row));
    matches.textContent = `${count(passing.length)} of ${plural(steps.length, "step")}`;
    more.hidden = passing.length <= limit;
    more.textContent = `Show ${count(Math.min(MORE, passing.length - limit))} more`;
    for (const { column, cell } of heads) {
      if (column.key === key) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
  }
  function row(step) {
    const go = el("button.go", { type: "button", title: "Show it in the timeline", onclick: () => pointer(step.place) }, count(step.number));
    const cells = COLUMNS.map(({ key, number, isBytes }) => {
      if (key === "number") return el("td.number", go);
      if (key === "status") return el("td", status(step), (step.isFirst || step.isAfter) && el("span.exact", step.isFirst ? "first failure" : AFTER));
      if (isBytes) return el("td.number", bytes(step[key]), step[key] >= 1024 && el("span.exact", exact(step[key])));
      return el("td.id", { class: key === "at" && "wide" }, step[key]);
    });
    return el("tr", { class: step.isAfter ? "after" : null }, cells);
  }
  draw();
}
