// Decodes the processes of a profile, written by page_data.py: columns of calls and buffers, and what is derived from them once.

const DATA = JSON.parse(document.getElementById("data").textContent);
const MEMORIES = {
  dram: { title: "DRAM", per: "per bank", tone: "dram" },
  l1: { title: "L1", per: "per core", tone: "l1" },
  l1_small: { title: "L1_SMALL", per: "per core", tone: "small" },
  trace: { title: "trace region", per: "per bank", tone: "other" },
};
const MEMORY_NUMBERS = ["dram", "l1", "l1_small", "trace"]; // as in page_data.py
const LEVELS = 4; // of function bands

/** Returns a promise of the process at `place` of the page. */
async function processOf(place) {
  return decoded(await unpacked(DATA.processes[place].data, `process ${place}`));
}

function decoded(raw) {
  const p = { ...raw, rows: raw.calls.name.length };
  const { buffers, calls } = p;
  const numbers = calls.number;
  const total = buffers.size.length;
  p.last = new Float64Array(total); // the last call during which a buffer was resident
  p.fromRow = new Int32Array(total);
  p.toRow = new Int32Array(total); // the row after that call
  for (let i = 0; i < total; i++) {
    const freed = buffers.freed[i];
    p.last[i] = freed === null ? (p.devices[buffers.device[i] + 1]?.first ?? Infinity) - 1 : freed - buffers.freedBetween[i];
    p.fromRow[i] = rowAt(p, buffers.made[i]);
    p.toRow[i] = p.last[i] === Infinity ? p.rows : rowAt(p, p.last[i] + 1);
  }
  p.isWhole = numbers.length === p.total;
  p.used = p.memories.filter((memory) => p.peaks[memory]);
  p.bands = bandsOf(p);
  return p;
}

/** Returns the first row whose call has at least this number; the number of rows if there is none. */
function rowAt(p, number) {
  const numbers = p.calls.number;
  if (numbers.length === p.total) return Math.min(Math.max(0, number), p.rows);
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the last device that was opened before the call of a row. */
function deviceAt(p, row) {
  const number = p.calls.number[Math.min(row, p.rows - 1)] ?? 0;
  let [low, high] = [0, p.devices.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (p.devices[middle].first <= number) low = middle;
    else high = middle;
  }
  return p.devices[low];
}

/** Returns the bytes of a bank of a memory at a row. */
function bankAt(p, memory, row) {
  return deviceAt(p, row).memories[memory]?.[1] ?? 0;
}

/** Returns the peak of a memory, with what was allocated beside the recorded buffers. */
function peakOf(p, memory) {
  const { size, call } = p.peaks[memory];
  return size + (p.calls.base[memory][rowAt(p, call)] ?? 0);
}

/** Returns a call with its figures, by its row. `before` is null where the call before is not on the page. */
function callAt(p, row) {
  const { calls } = p;
  const device = deviceAt(p, row);
  const number = calls.number[row];
  const isFirst = device.first === number;
  const hasBefore = row > 0 && calls.number[row - 1] === number - 1;
  const memories = p.memories.map((memory) => {
    const bank = bankAt(p, memory, row);
    const base = calls.base[memory][row];
    const before = isFirst ? base : hasBefore ? calls.after[memory][row - 1] : null;
    return { memory, bank, before, peak: calls.peak[memory][row] + base, after: calls.after[memory][row], largest: calls.largest_free[memory][row] };
  });
  const text = (name) => (calls[name][row] < 0 ? "" : p.texts[calls[name][row]]);
  const [name, error, fullest] = ["name", "error", "fullest"].map(text);
  const { us, programs, unknown, program, headroom } = Object.fromEntries(
    ["us", "programs", "unknown", "program", "headroom"].map((key) => [key, calls[key][row]]),
  );
  const tensors = (name) => p.tensors[calls[name][row]].map((place) => p.texts[place]);
  const [operands, results] = [tensors("operands"), tensors("results")];
  return { row, number, name, error, fullest, us, programs, unknown, program, headroom, memories, operands, results, stack: p.stacks[calls.stack[row]] };
}

/** "net.py:12 (forward)", of a site by its number. */
function siteText(p, site, isShort = true) {
  const [file, line, name] = p.sites[site];
  return `${isShort ? baseName(p.texts[file]) : p.texts[file]}:${line} (${p.texts[name]})`;
}

function baseName(file) {
  return file.slice(file.lastIndexOf("/") + 1);
}

/** The line of the user's program that a stack ends at. */
function lineOf(p, stack) {
  return stack?.length ? siteText(p, stack[0]) : "no line of the program";
}

/** Returns the buffers of a memory that were resident at any time of a call, largest first. */
function residentDuring(p, memory, number) {
  const { buffers } = p;
  const wanted = MEMORY_NUMBERS.indexOf(memory);
  const found = [];
  for (let i = 0; i < p.last.length; i++)
    if (buffers.memory[i] === wanted && buffers.made[i] <= number && p.last[i] >= number) found.push(i);
  return found.sort((one, other) => buffers.size[other] - buffers.size[one] || one - other);
}

/** Returns lanes of bands: the tests of a suite, then the user's functions from the outermost that differs inwards. */
function bandsOf(p) {
  const lanes = [];
  if (p.spans.length) {
    const band = ({ name, first, end }) => ({ from: rowAt(p, first), to: rowAt(p, end), label: name.slice(name.lastIndexOf("::") + 1).replace(/^:/, ""), title: name });
    lanes.push(p.spans.map(band).filter(({ from, to }) => to > from));
  }
  const outer = p.stacks.map((stack) => [...stack].reverse());
  const deepest = outer.reduce((most, stack) => Math.max(most, stack.length), 0);
  const all = lanes.length + LEVELS;
  for (let level = 0; level < deepest && lanes.length < all; level++) {
    const keys = outer.map((stack) => (level < stack.length ? frameKey(p, stack, level) : null));
    const bands = [];
    let last = null;
    for (let row = 0; row < p.rows; row++) {
      const stack = p.calls.stack[row];
      if (keys[stack] !== null && keys[stack] === last) bands.at(-1).to = row + 1;
      else if (keys[stack] !== null) bands.push({ from: row, to: row + 1, stack, level });
      last = keys[stack];
    }
    const isEverywhere = bands.length === 1 && bands[0].to - bands[0].from === p.rows;
    if (!isEverywhere || level === deepest - 1) lanes.push(bands);
  }
  for (const band of lanes.flat()) {
    if (band.label !== undefined) continue;
    const frame = outer[band.stack][band.level];
    const caller = band.level > 0 ? `, called at ${siteText(p, outer[band.stack][band.level - 1])}` : "";
    band.label = p.texts[p.sites[frame][2]];
    band.title = `${band.label} in ${baseName(p.texts[p.sites[frame][0]])}${caller}`;
  }
  return lanes;
}

/** Identifies a frame by its function and the lines of those around it. */
function frameKey(p, stack, level) {
  const [file, , name] = p.sites[stack[level]];
  return `${stack.slice(0, level).join(" ")}|${file} ${name}`;
}
