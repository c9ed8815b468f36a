// Names of the records' values on the page. A verdict has a letter and a word; its colour is redundant.

const RESOURCES = {
  l1_buffer: { name: "L1 buffers", short: "L1", letter: "L", tone: "l1" },
  dram_buffer: { name: "DRAM buffers", short: "DRAM", letter: "D", tone: "dram" },
  l1_small_buffer: { name: "L1_SMALL buffers", short: "L1_SMALL", letter: "S", tone: "small" },
  trace_buffer: { name: "trace region", short: "trace", letter: "T", tone: "other" },
  circular_buffer: { name: "program buffers beyond L1", short: "program", letter: "P", tone: "program" },
  clash: { name: "program buffers over L1 tensors", short: "clash", letter: "C", tone: "clash" },
  kernel_config: { name: "kernel config", short: "kernel config", letter: "K", tone: "other" },
  fragmentation: { name: "fragmentation", short: "fragmented", letter: "F", tone: "other" },
  host: { name: "host memory", short: "host", letter: "H", tone: "other" },
};

// Worst first: of several cases in one place, the first of these is shown.
const STATUSES = {
  oom: { name: "OOM", letter: "O", tone: "other" },
  crash: { name: "crash", letter: "!", tone: "fault" },
  timeout: { name: "timeout", letter: "!", tone: "fault" },
  error: { name: "error", letter: "!", tone: "fault" },
  mismatch: { name: "mismatch", letter: "!", tone: "fault" },
  invalid: { name: "invalid", letter: "–", tone: "none" },
  unsupported: { name: "unsupported", letter: "–", tone: "none" },
  agrees: { name: "values agree, memory not measured", short: "values agree", letter: "=", tone: "none" },
  not_run: { name: "not run", letter: "?", tone: "none" },
  fits: { name: "fits", letter: "·", tone: "fits" },
};
const SEVERITY = Object.keys(STATUSES);

const PEAKS = {
  l1_bytes: "L1 tensors",
  circular_bytes: "circular buffers",
  dataflow_bytes: "dataflow buffers",
  scratch_bytes: "scratch",
  l1_total_bytes: "L1 in all",
  l1_small_bytes: "L1_SMALL",
  dram_bytes: "DRAM",
};

const UNNAMED = "(module not recorded)";

/** Returns name, letter and tone of a verdict. */
function verdictOf(item) {
  const known = STATUSES[item.status] || { name: item.status, letter: "?", tone: "none" };
  if (item.status !== "oom") return known;
  const resource = resourceOf(item.resource);
  return { name: `OOM: ${resource.name}`, short: `OOM ${resource.short}`, letter: resource.letter, tone: resource.tone };
}

function resourceOf(name) {
  return RESOURCES[name] || { name: name || "not named", short: name, letter: "O", tone: "other" };
}

/** Shows the verdict as a badge: letter, word, colour. */
function badge(item) {
  const { name, short, letter, tone } = verdictOf(item);
  return el(
    "span",
    { class: `badge ${tone}`, title: name },
    el("span.letter", { "aria-hidden": "true" }, letter),
    short || name,
  );
}
