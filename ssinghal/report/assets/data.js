// Decodes the page's data, written by page.py: cases as objects, one group (setting) at a time.

const DATA = JSON.parse(document.getElementById("data").textContent);
const DECODED = new Map();

/** Returns the group of a setting, else the first. */
function groupOf(setting) {
  return DATA.groups.find((group) => group.setting === setting) || DATA.groups[0];
}

/** Returns all cases of a group, in the run's order. */
function casesOf(group) {
  if (!DECODED.has(group)) DECODED.set(group, decode(group.cases));
  return DECODED.get(group);
}

/** Returns the case of `op:key`, or of a key; undefined if there is none. */
function findCase(cases, name) {
  return cases.find((item) => item.name === name) || cases.find((item) => item.key === name);
}

const TEXT_COLUMNS = [
  "id",
  "op",
  "operator",
  "status",
  "resource",
  "stage",
  "dtype",
  "layout",
  "memory",
  "sentence",
  "message",
  "decided_by",
  "numerics",
  "usage_note",
  "shape",
  "estimate",
];
const PLAIN_COLUMNS = ["key", "logical", "allocated", "asked", "need", "short", "load", "left", "seconds", "usage", "calls", "searched"];

function decode(columns) {
  const text = (number) => DATA.texts[number];
  return columns.key.map((key, index) => {
    const item = { index };
    for (const name of PLAIN_COLUMNS) item[name] = columns[name][index];
    for (const name of TEXT_COLUMNS) item[name] = text(columns[name][index]);
    item.name = `${item.op}:${key}`;
    item.oom = item.status === "oom";
    item.fault = DATA.faults.includes(item.status);
    item.sources = columns.sources[index].map(([source, calls, modules, others]) => {
      const [catalog, model, input] = DATA.sources[source];
      return { catalog, model, input, calls, others, modules: modules.map(([module, made]) => [text(module), made]) };
    });
    item.made = item.calls ? "models" : "nobody";
    item.remedies = columns.remedies[index].map(([remedy, helps, details]) => ({ remedy: text(remedy), helps, text: text(details) }));
    item.helps = item.remedies.filter(({ helps }) => helps).map(({ remedy }) => remedy);
    item.placed = columns.tensors[index]; // decoded when shown: see tensorsOf and barsOf
    item.drawn = columns.bars[index];
    item.line = columns.line[index];
    item.words = [item.op, item.operator, item.id, item.shape, item.key, item.sentence, ...item.sources.flatMap(sourceWords)]
      .join(" ")
      .toLowerCase();
    return item;
  });
}

function sourceWords(source) {
  return [source.catalog, source.model, ...source.modules.map(([path]) => path)];
}

/** Returns the tensors of a case, with the bytes booked by the allocator if they were placed. */
function tensorsOf(item) {
  return item.placed.map(([label, number, booked]) => ({ label: DATA.texts[label], number, booked, ...tensor(number) }));
}

function tensor(number) {
  const [shape, padded, dtype, layout, memory, logical, allocated, bank, cause] = DATA.tensors[number];
  return { shape, padded, dtype, layout, memory, logical, allocated, bank, cause };
}

/** Returns the banks of a case. Segments add up to the bank, `beyond` to the missing bytes. */
function barsOf(item) {
  const segment = ([part, label, size]) => ({ part: DATA.texts[part], label: DATA.texts[label], size });
  return item.drawn.map(([memory, size, bank, segments, beyond, notes]) => ({
    memory: DATA.texts[memory],
    size,
    bank,
    segments: segments.map(segment),
    beyond: beyond.map(segment),
    notes: notes.map((note) => DATA.texts[note]),
  }));
}

/** Returns the case as a line for `probe --from`, with the texts of Python, so that no number is rounded. */
function lineOf(item) {
  return `{${DATA.line.map((key, index) => `"${key}": ${DATA.texts[item.line[index]]}`).join(", ")}}`;
}
