// Starts the page: shows the first process, and another one when it is chosen.

const main = document.getElementById("main");
const chooser = document.getElementById("process");

async function start(place) {
  main.setAttribute("aria-busy", "true");
  const p = await processOf(place);
  view.listeners = [];
  Object.assign(view, { process: p, from: 0, to: Math.max(1, p.rows), row: startRow(p) });
  const timeline = p.rows > 0 && timelinePanel(p);
  if (timeline) timeline.id = "timeline";
  const parts = [
    overviewPanel(p, DATA.processes[place]),
    failurePanel(p),
    findingsPanel(p),
    timeline,
    p.rows > 0 && callPanel(p),
    p.used.length > 0 && addressPanel(p),
    iciclePanel(p),
    partsPanel(p),
    p.rows > 0 && operationsPanel(p),
  ];
  document.getElementById("view").replaceChildren(...parts.filter(Boolean));
  changed();
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      main.setAttribute("aria-busy", "false");
      performance.mark("ready");
    }),
  );
}

/** The call that is selected first: the failure, else the peak of L1, else of another memory. */
function startRow(p) {
  const number = p.failure?.call ?? p.peaks.l1?.call ?? p.peaks[p.used[0]]?.call ?? 0;
  return Math.max(0, Math.min(p.rows - 1, rowAt(p, number)));
}

chooser?.addEventListener("change", () => start(Number(chooser.value)));
if (DATA.processes.length) start(0);
else main.setAttribute("aria-busy", "false");
