// The cases of a large run, which are in files beside the page (large_page.py): each is loaded when a view or a link needs it.

const ARRIVED = new Map(); // file → [digest, packed texts], from its script until it is used
const HELD = new WeakMap(); // group → its index, the cases of each loaded part, and what is not there
let asked = { filters: "", times: 0 }; // how often the reader asked for more cases with these filters

/** Each part calls this, and does nothing else. */
window.ssinghalPart = ([file, digest, packed]) => ARRIVED.set(file, [digest, packed]);

/** Returns a promise of the packed texts of a file. */
function arriving([file, digest]) {
  return new Promise((resolve, reject) => {
    const script = el("script", { src: file });
    script.onload = () => {
      const [found, packed] = ARRIVED.get(file) || [];
      ARRIVED.delete(file);
      script.remove();
      if (found === digest) resolve(packed);
      else reject(new Error(`${file} belongs to another report`));
    };
    script.onerror = () => {
      script.remove();
      reject(new Error(`${file} is not there, or cannot be read`));
    };
    document.head.append(script);
  });
}

function indexOf(group) {
  return HELD.get(group).index;
}

/** Returns all cases that are loaded, whatever view needed them. */
function loadedCases(group) {
  return [...HELD.get(group).parts.values()].flat();
}

/** Loads the parts that a view and a link need, and returns the cases for the view. */
async function neededCases(group, view) {
  if (!HELD.has(group)) HELD.set(group, { index: await unpacked(group.index, "index"), parts: new Map(), waiting: new Map(), lost: new Map(), view: {} });
  const held = HELD.get(group);
  const linked = state.case ? held.index.parts.filter(hasCase) : [];
  const wanted = opensOnSummary(group, view) || view === "placements" ? [] : held.index.parts.filter((part) => mayPass(part, held.index, view));
  const chosen = affordable(wanted, held);
  await Promise.all([...linked, ...chosen].map((part) => tryOnce(held, part.files[0], () => loadPart(held, part))));
  held.view = { wanted: casesIn(wanted), loaded: casesIn(chosen.filter((part) => held.parts.has(part))), parts: chosen.length };
  return chosen.flatMap((part) => held.parts.get(part) || []);
}

function isUnfiltered() {
  return FILTERS.every((name) => !state[name]);
}

function filterKey() {
  return JSON.stringify(FILTERS.map((name) => state[name]));
}

/** Returns as many parts as may be loaded, those that are loaded already before others. Without a filter none is, unless all may
 * be: a part of a table of everything is of little use. */
function affordable(wanted, held) {
  const times = asked.filters === filterKey() ? asked.times : 0;
  const allowed = DATA.loadedCases * (times + (isUnfiltered() ? 0 : 1));
  if (casesIn(wanted) <= DATA.loadedCases) return wanted;
  if (!allowed) return [];
  const ordered = [...wanted].sort((one, other) => held.parts.has(other) - held.parts.has(one));
  let cases = 0;
  return ordered.filter((part, place) => {
    cases += part.cases;
    return place === 0 || cases <= allowed;
  });
}

function casesIn(parts) {
  return sum(parts.map((part) => part.cases));
}

/** Returns whether a part may have the case of the state: parts of an operator are sorted by key. */
function hasCase({ op, first, last }) {
  const at = state.case.lastIndexOf(":");
  const key = state.case.slice(at + 1);
  return state.case.slice(0, at) === op && first <= key && key <= last;
}

/** Returns whether a part may have cases that pass the filters: its lists say so, or they cannot know. */
function mayPass({ op, has }, { values }, view) {
  const except = view === "models" ? ["status", "resource", "remedy"] : []; // shares are relative to all calls
  if (state.op && state.op !== op) return false;
  return Object.keys(has).every(
    (name) => !state[name] || except.includes(name) || has[name].includes(values[name].indexOf(state[name])),
  );
}

/** Starts to load a file, once; what is not there is noted, and tried again when it is needed again. */
async function tryOnce(held, file, start) {
  const [name] = file;
  if (!held.waiting.has(name)) held.waiting.set(name, start());
  try {
    await held.waiting.get(name);
    held.lost.delete(name);
  } catch (error) {
    held.waiting.delete(name);
    held.lost.set(name, error.message);
  }
}

async function loadPart(held, part) {
  const [packed] = await arriving(part.files[0]);
  const cases = decode(await unpacked(packed, part.files[0][0]));
  for (const item of cases) item.part = part;
  held.parts.set(part, cases);
}

/** Loads the tensors and details of these cases, and of the others of their parts. */
async function loadDetails(group, cases) {
  const held = HELD.get(group);
  const parts = new Set(cases.map((item) => item.part));
  await Promise.all(
    [...parts].map((part) =>
      tryOnce(held, part.files[1], async () => {
        const [tensors, details] = await arriving(part.files[1]);
        const [name] = part.files[1];
        addTensors(await unpacked(tensors, name), held.parts.get(part));
        addDetails(await unpacked(details, name), held.parts.get(part), 0);
      }),
    ),
  );
  for (const item of cases) if (!item.placed) item.placed = [];
}

/** Returns the number of cases of a group, loaded or not. */
function totalOf(group, cases) {
  return group.index ? indexOf(group).total : cases.length;
}

/** Returns whether a view shows the operators to choose from, as there are too many cases to load without a filter. */
function choosesFirst(group) {
  if (!group.index) return false;
  const { wanted, parts } = HELD.get(group).view;
  return wanted > 0 && parts === 0;
}

/** States how much of a large run a view shows, with a button to load more, and names what is not there. */
function loadedNote(group, view) {
  if (!group.index || view === "placements") return null;
  const { index, view: shown } = HELD.get(group);
  const { wanted, loaded } = shown;
  const all = plural(wanted, "case");
  const text =
    wanted <= loaded
      ? `Loaded: all ${all} that may pass the filters, of ${count(index.total)}.`
      : loaded
        ? `Loaded: ${count(loaded)} of ${all} that may pass the filters. Below are only these, and only these are counted and sorted: `
        : `None of ${all} is loaded. Choose an operator, a status, a memory or a model, or `;
  const load = () => {
    asked = { filters: filterKey(), times: asked.filters === filterKey() ? asked.times + 1 : 1 };
    draw();
  };
  const more = Math.min(DATA.loadedCases, wanted - loaded);
  return el(
    "section.panel.loaded",
    { role: "status" },
    el("p", text, more > 0 && el("button", { type: "button", onclick: load }, `load ${count(more)}${loaded ? " more" : ""}`)),
    lostTexts(group),
  );
}

/** Names the files that are not there. */
function lostTexts(group) {
  return [...HELD.get(group).lost.values()].map((text) =>
    el("p.problem", `${text}: what it holds is not shown. Keep the folder report_parts beside report.html, as ssinghal report writes them.`),
  );
}
