// The filters that all views share.

const SHAPE_ONLY = "~"; // prefix of a model that has a tensor of the shape, but is not known to make the call
const MADE = { models: "models", nobody: "no model: shape sweeps, or by hand" };

/** Returns the model of a source as the filter names it. */
function modelName({ model, calls }) {
  return model && calls === 0 ? SHAPE_ONLY + model : model;
}

const SELECTS = {
  op: { title: "Operator", values: (item) => [item.op] },
  status: { title: "Status", values: (item) => [item.status], name: (value) => (STATUSES[value] || { name: value }).name },
  resource: { title: "Ran out", values: (item) => [item.resource], name: (value) => resourceOf(value).name },
  memory: { title: "Memory", values: (item) => [item.memory] },
  catalog: { title: "Catalog", values: (item) => item.sources.map((source) => source.catalog) },
  model: {
    title: "Model",
    values: (item) => item.sources.map(modelName),
    name: (value) => (value.startsWith(SHAPE_ONLY) ? `${value.slice(SHAPE_ONLY.length)}: shapes only` : value),
  },
  made: { title: "Called by", values: (item) => [item.made], name: (value) => MADE[value] || value },
  remedy: { title: "Fits with", values: (item) => item.helps },
};
const CHIPS = { shape: "shape", input: "input" }; // filters that only links set

/** Returns a function that finds `word` in a text; * stands for any size or name: "1,*,1280,800". */
function finder(word) {
  if (!word.includes("*")) return (text) => text.includes(word);
  const parts = word.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  const pattern = new RegExp(parts.join("\\w+"));
  return (text) => pattern.test(text);
}

/** Returns the cases that pass all filters of the state, except those named in `except`. */
function filtered(cases, except = []) {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean).map(finder);
  const plain = ["op", "status", "resource", "memory", "made", "shape"].filter((name) => state[name] && !except.includes(name));
  return cases.filter(
    (item) =>
      plain.every((name) => item[name] === state[name]) && passes(item) && words.every((finds) => finds(wordsOf(item))),
  );
}

function passes(item) {
  if (state.remedy && !item.helps.includes(state.remedy)) return false;
  if (!state.catalog && !state.model && !state.input) return true;
  return item.sources.some(passesSource);
}

/** Returns whether a source that a model's calls come from passes the filters. */
function passesSource(source) {
  const same = { model: modelName(source), input: source.input, catalog: source.catalog };
  return Object.keys(same).every((name) => !state[name] || same[name] === state[name]);
}

/**
 * Returns how often the models that pass the filters make the call. Of two captures of one model at one input (the same calls at
 * two levels) the one with more calls counts.
 */
function callsOf(item) {
  if (!state.catalog && !state.model && !state.input) return item.calls;
  const captures = new Map();
  for (const source of item.sources.filter(passesSource)) {
    const [model, capture] = [JSON.stringify([source.model, source.input]), source.catalog];
    const counts = captures.get(model) || new Map();
    captures.set(model, counts.set(capture, (counts.get(capture) || 0) + source.calls));
  }
  return sum([...captures.values()].map((counts) => Math.max(...counts.values())));
}

/** Returns how often the models that pass the filters make the calls that cases are variants of. */
function madeCalls(items) {
  const most = new Map();
  for (const item of items) most.set(item.call, Math.max(most.get(item.call) || 0, callsOf(item)));
  return sum([...most.values()]);
}

/** Returns what counts of calls count: of a run that has each call in several placements or dtypes, these variants. */
function callUnit() {
  return DATA.run.variants ? "variant" : "call";
}

/** Returns a number of calls with what it counts. */
function countedCalls(number) {
  return `${plural(number, callUnit())}${DATA.run.variants ? " of calls" : ""}`;
}

/** Returns how many calls have been counted in their variants, as a text after a count; "" of a run that has one of each. */
function variantsText(calls) {
  return DATA.run.variants && ` These are variants of ${plural(calls, "call")}: ${DATA.run.variants}.`;
}

/** Builds the filters of a group; showFilters sets their values. */
function buildFilters(form, group, cases) {
  const search = el("input", {
    type: "search",
    name: "q",
    placeholder: "Search: operator, shape (1,*,640,640), model, module …",
    "aria-label": "Search",
    autocomplete: "off",
    spellcheck: "false",
    oninput: (event) => go({ q: event.target.value }, true),
  });
  const selects = Object.entries(SELECTS).map(([name, select]) =>
    el("label.field", el("span", select.title), chooser(name, select, countsOf(group, cases, name))),
  );
  const more = el(
    "details.more",
    { open: matchMedia("(min-width: 800px)").matches },
    el("summary", "Filters"),
    el("div.selects", selects),
  );
  form.replaceChildren(search, el("div.found", { role: "status" }), more);
  form.onsubmit = (event) => event.preventDefault();
}

/** Returns the number of cases of a group by the values of a filter. */
function countsOf(group, cases, name) {
  if (group.index) return new Map(indexOf(group).counts[name]);
  const counts = new Map();
  for (const item of cases) for (const value of new Set(SELECTS[name].values(item))) if (value) counts.set(value, (counts.get(value) || 0) + 1);
  return counts;
}

function chooser(name, { name: nameOf = (value) => value }, counts) {
  const options = [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
  return el(
    "select",
    { name, onchange: (event) => go({ [name]: event.target.value }) },
    el("option", { value: "" }, "all"),
    options.map(([value, number]) => el("option", { value }, `${nameOf(value)} (${count(number)})`)),
  );
}

/** Shows the state's values in the filters, and the number of cases that pass out of `total`. */
function showFilters(form, shown, total) {
  const search = form.elements.q;
  if (search.value !== state.q) search.value = state.q;
  for (const name of Object.keys(SELECTS)) {
    const select = form.elements[name];
    if (state[name] && ![...select.options].some((option) => option.value === state[name])) {
      select.append(el("option", { value: state[name] }, `${state[name]} (0)`)); // from a link to another run
    }
    select.value = state[name];
    select.classList.toggle("set", Boolean(state[name]));
  }
  const set = FILTERS.filter((name) => state[name]);
  const chips = Object.entries(CHIPS)
    .filter(([name]) => state[name])
    .map(([name, title]) =>
      link({ [name]: "" }, `${title} ${state[name]} ✕`, {
        class: "chip",
        "aria-label": `remove the filter ${title} ${state[name]}`,
      }),
    );
  form.querySelector("summary").textContent = set.length ? `Filters (${set.length})` : "Filters";
  form
    .querySelector(".found")
    .replaceChildren(
      el("span", set.length ? `${count(shown.length)} of ${plural(total, "case")}` : plural(total, "case")),
      ...chips,
      ...(set.length ? [link(unfiltered(), "clear filters", { class: "clear" })] : []),
    );
}
