// The state of the page, kept in the URL's hash: a link reproduces it, and the browser's history contains it.

const DEFAULTS = {
  view: "overview",
  set: "",
  q: "",
  op: "",
  status: "",
  resource: "",
  memory: "",
  catalog: "",
  model: "",
  made: "",
  remedy: "",
  input: "",
  shape: "",
  sort: "",
  page: "",
  rows: "",
  case: "",
};
const FILTERS = ["q", "op", "status", "resource", "memory", "catalog", "model", "made", "remedy", "input", "shape"];

let state = parseHash(location.hash);

function parseHash(hash) {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, params.get(name) || value]));
}

/**
 * Returns the hash of the current state with `changes`. Another view, setting or filter starts at page 1; another view also
 * has its own order.
 */
function href(changes) {
  const fresh = {};
  if (Object.keys(changes).some((name) => name === "view" || name === "set" || FILTERS.includes(name))) fresh.page = "";
  if ("view" in changes && changes.view !== state.view) Object.assign(fresh, { sort: "", rows: "" });
  const next = { ...state, ...fresh, ...changes };
  const names = Object.keys(DEFAULTS).filter((name) => next[name] && next[name] !== DEFAULTS[name]);
  return `#${new URLSearchParams(names.map((name) => [name, next[name]]))}`;
}

/** Changes the state. `replace`: without a step in the history, as while typing. */
function go(changes, replace = false) {
  const next = href(changes);
  if (replace) location.replace(next);
  else location.hash = next;
}

/** Returns the changes that clear all filters. */
function unfiltered() {
  return Object.fromEntries(FILTERS.map((name) => [name, ""]));
}
