// The state that all pictures of a process share: which calls are in view, and which is selected.

const view = { process: null, from: 0, to: 1, row: 0, listeners: [] };
let isAwaited = false;

/** Calls `listener` before the next frame after the view changes. */
function onView(listener) {
  view.listeners.push(listener);
}

function changed() {
  if (isAwaited) return;
  isAwaited = true;
  requestAnimationFrame(() => {
    isAwaited = false;
    for (const listener of view.listeners) listener();
  });
}

/** Shows the rows from `from` up to `to`, at least two. */
function zoomTo(from, to) {
  const { rows } = view.process;
  const span = Math.min(rows, Math.max(2, to - from));
  view.from = Math.min(Math.max(0, from), rows - span);
  view.to = view.from + span;
  changed();
}

/** Zooms by `factor` (below 1: in) around a row. */
function zoomBy(factor, around = (view.from + view.to) / 2) {
  const span = (view.to - view.from) * factor;
  const share = (around - view.from) / (view.to - view.from);
  zoomTo(around - share * span, around + (1 - share) * span);
}

function pan(share) {
  const span = view.to - view.from;
  zoomTo(view.from + share * span, view.to + share * span);
}

/** Selects a row, and brings it into view. */
function select(row) {
  view.row = Math.min(view.process.rows - 1, Math.max(0, Math.round(row)));
  if (view.row < view.from || view.row >= view.to) {
    const span = view.to - view.from;
    zoomTo(view.row - span / 2, view.row + span / 2);
  }
  changed();
}

/** Selects the call of a number; of calls that the page has not, the next one. */
function selectCall(number) {
  select(rowAt(view.process, number));
}
