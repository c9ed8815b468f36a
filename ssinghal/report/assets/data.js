// Decodes the page's data, written by page.py: cases as objects, one group (setting) at a time, and only the parts that are needed.

const DATA = JSON.parse(document.getElementById("data").textContent);
const DECODED = new WeakMap(); // group → promise of its cases
const LOADED = new WeakMap(); // group → promises of its other parts, by their place

/** Returns the group of a setting, else the first. */
function groupOf(setting) {
  return DATA.groups.find((group) => group.setting === setting) || DATA.groups[0];
}

/** Returns a promise of all cases of a group, in the run's order; of a large run, of those that the view needs. */
function casesOf(group, view) {
  if (group.index) return neededCases(group, view);
  if (!DECODED.has(group)) DECODED.set(group, unpacked(group.cases, "cases").then(decode));
  return DECODED.get(group);
}

/** Decodes what else the state needs: the tensors of all cases for the view of padding, and all of a selected case. */
async function load(group, cases, view) {
  const item = state.case && chosenCase(group, cases);
  if (!item && view !== "padding") return;
  if (group.index) return loadDetails(group, view === "padding" ? cases : [item]);
  await loadedOnce(group, "tensors", () => unpacked(group.tensors, "tensors").then((part) => addTensors(part, cases)));
  if (!item) return;
  const place = Math.floor(item.index / group.detailCases);
  await loadedOnce(group, place, () => unpacked(group.details[place], `details ${place}`).then((part) => addDetails(part, cases, place * group.detailCases)));
}

function loadedOnce(group, place, start) {
  if (!LOADED.has(group)) LOADED.set(group, new Map());
  const parts = LOADED.get(group);
  if (!parts.has(place)) parts.set(place, start());
  return parts.get(place);
}

/** Returns the case that the state selects; undefined if there is none. */
function chosenCase(group, cases) {
  return findCase(group.index ? loadedCases(group) : cases, state.case);
}

/** Returns the case of `op:key`, or of a key; undefined if there is none. */
function findCase(cases, name) {
  return cases.find((item) => item.name === name) || cases.find((item) => item.key === name);
}

const TEXT_COLUMNS = ["id", "op", "operator", "status", "resource", "stage", "memory", "sentence", "shape"];
const PLAIN_COLUMNS = ["key", "logical", "allocated", "asked", "need", "short", "lacks", "load", "left", "calls", "searched"];

function decode({ texts, sources, columns }) {
  return (columns.key || []).map((key, index) => {
    const item = { index };
    for (const name of PLAIN_COLUMNS) item[name] = columns[name][index];
    for (const name of TEXT_COLUMNS) item[name] = texts[columns[name][index]];
    item.name = `${item.op}:${key}`;
    item.call = columns.call ? texts[columns.call[index]] : item.name; // what all variants of a call share
    item.oom = item.status === "oom";
    item.fault = DATA.faults.includes(item.status);
    item.sources = columns.sources[index].map(([source, calls, modules, others]) => {
      const [catalog, model, input] = sources[source];
      return { catalog, model, input, calls, others, modules: modules.map(([module, made]) => [texts[module], made]) };
    });
    item.made = item.calls ? "models" : "nobody";
    item.helps = columns.helps[index].map((change) => texts[change]);
    return item;
  });
}

/** Returns all that a search looks at. */
function wordsOf(item) {
  item.words ??= [item.op, item.operator, item.id, item.shape, item.key, item.sentence, ...item.sources.flatMap(sourceWords)]
    .join(" ")
    .toLowerCase();
  return item.words;
}

const TENSOR_FIELDS = ["shape", "padded", "dtype", "layout", "memory", "logical", "allocated", "bank", "cause"];

/** Adds the tensors of each case, with the bytes booked by the allocator if they were placed; equal ones are one object. */
function addTensors({ texts, tensors, columns }, cases) {
  const all = tensors.map((values) => Object.fromEntries(TENSOR_FIELDS.map((name, index) => [name, values[index]])));
  for (const item of cases)
    item.placed = columns.tensors[item.index].map(([label, number, booked]) => ({ label: texts[label], tensor: all[number], booked }));
}

const DETAIL_TEXTS = ["dtype", "layout", "message", "decided_by", "numerics", "usage_note", "estimate"];

/** Adds what the panel of a case shows, from `first` on. Segments of a bank add up to it, `beyond` to the missing bytes. */
function addDetails({ texts, columns }, cases, first) {
  const segment = ([part, label, size]) => ({ part: texts[part], label: texts[label], size });
  columns.line.forEach((line, index) => {
    const item = cases[first + index];
    for (const name of DETAIL_TEXTS) item[name] = texts[columns[name][index]];
    item.line = line.map((number) => texts[number]);
    item.usage = columns.usage[index];
    item.seconds = columns.seconds[index];
    item.remedies = columns.remedies[index].map(([helps, text]) => ({ helps, text: texts[text] }));
    item.bars = columns.bars[index].map(([memory, size, bank, segments, beyond, notes]) => ({
      memory: texts[memory],
      size,
      bank,
      segments: segments.map(segment),
      beyond: beyond.map(segment),
      notes: notes.map((note) => texts[note]),
    }));
  });
}

function sourceWords(source) {
  return [source.catalog, source.model, ...source.modules.map(([path]) => path)];
}

/** Returns the case as a line for `probe --from`, with the texts of Python, so that no number is rounded. */
function lineOf(item) {
  return `{${DATA.line.map((key, index) => `"${key}": ${item.line[index]}`).join(", ")}}`;
}
