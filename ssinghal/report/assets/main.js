// Draws the page whenever its state changes.

const VIEWS = {
  overview: overviewView,
  matrix: matrixView,
  cases: casesView,
  models: modelsView,
  padding: paddingView,
  placements: placementsView,
};
const TITLES = {
  overview: "Overview",
  matrix: "Matrix",
  cases: "Cases",
  models: "Models",
  padding: "Padding",
  placements: "Placements",
};
const [HEAD, SETTING, TABS, FORM, MAIN, VIEW, CASE, FOOT] = [
  "head",
  "setting",
  "tabs",
  "filters",
  "main",
  "view",
  "case",
  "foot",
].map((id) => document.getElementById(id));

let drawn = {}; // the state that the page shows
let opener = null; // the element that had the focus when the case was opened
let builtFor = null; // the group whose values the filters list

let latest = 0; // the last call of draw: an earlier one that still waits for its data draws nothing

/** Draws the state as soon as its data is decoded; until then the page is busy. */
async function draw() {
  const own = (latest += 1);
  MAIN.setAttribute("aria-busy", "true");
  const group = groupOf(state.set);
  const view = viewsOf(group).includes(state.view) ? state.view : DEFAULTS.view;
  const cases = await casesOf(group, view);
  await load(group, cases, view);
  if (own !== latest) return;
  drawState(group, cases, view);
  MAIN.setAttribute("aria-busy", "false");
}

/** Returns the names of the views of a group: only a run that places its calls in several memories has a view of them. */
function viewsOf(group) {
  return Object.keys(VIEWS).filter((name) => name !== "placements" || group.placements);
}

function drawState(group, cases, view) {
  if (builtFor !== group) buildFilters(FORM, group, cases);
  builtFor = group;
  const focused = document.activeElement && document.activeElement.dataset.focus;
  const shown = filtered(cases);
  drawHead(group);
  drawTabs(view, group);
  showFilters(FORM, shown, totalOf(group, cases));
  VIEW.setAttribute("aria-labelledby", `tab-${view}`);
  const content = () => (choosesFirst(group) ? operatorsPanel(group) : VIEWS[view](shown, group, cases));
  const parts = opensOnSummary(group, view) ? summaryView(group) : [loadedNote(group, view), content()];
  VIEW.replaceChildren(...parts.flat(Infinity).filter(Boolean));
  drawCase(cases, group, focused);
  if (drawn.view !== undefined && drawn.view !== state.view) window.scrollTo(0, 0);
  if (focused && focused !== "close") refocus(focused);
  drawn = { ...state };
}

/** Shows the run, its setting and numerics on every view. */
function drawHead(group) {
  const { run } = DATA;
  const settings =
    DATA.groups.length > 1
      ? el(
          "p.settings",
          `${DATA.groups.length} settings, not added up: `,
          DATA.groups.map((one) =>
            link({ ...unfiltered(), set: one === DATA.groups[0] ? "" : one.setting, case: "" }, one.setting, {
              "aria-current": one === group ? "true" : null,
              "data-focus": `set ${one.setting}`,
            }),
          ),
        )
      : null;
  SETTING.replaceChildren(el("b", group.setting), el("span.numerics", group.numerics));
  HEAD.replaceChildren(
    el(
      "div.title",
      el("h1", "Memory verdicts"),
      el("p.run", el("span.mono", run.id), el("span.hint", { title: run.command || null }, timesOf(run))),
    ),
    settings || "",
    ...run.remarks.map((remark) => el("p.hint", remark)),
    run.losses.length
      ? el(
          "details.losses",
          { open: run.losses.length < 3 },
          el("summary", `This run is incomplete: ${plural(run.losses.length, "problem")}`),
          el(
            "ul",
            run.losses.map((loss) => el("li", loss)),
          ),
        )
      : "",
  );
}

/** Shows how the run was created, and the other files of the report. */
function drawFoot() {
  const { run, files } = DATA;
  FOOT.replaceChildren(
    el("p.hint", run.command && ["Created by ", el("code", run.command)], run.commit && [" at commit ", el("code", run.commit)]),
    files.length > 0 &&
      el(
        "p.hint",
        "Other files: ",
        files.map((file, index) => [index ? ", " : "", el("a", { href: file }, file)]),
      ),
  );
}

/** "started 2026-01-02 03:04:05 UTC, not finished" */
function timesOf(run) {
  const started = new Date(run.started);
  if (Number.isNaN(started.getTime())) return run.started ? `started ${run.started}` : "";
  const text = `${started.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  return `started ${text}${run.finished ? "" : ", not finished"}`;
}

function drawTabs(view, group) {
  TABS.replaceChildren(
    ...viewsOf(group).map((name) =>
      link({ view: name }, TITLES[name], {
        role: "tab",
        id: `tab-${name}`,
        "aria-selected": String(name === view),
        "aria-controls": "view",
        tabindex: name === view ? "0" : "-1",
        "data-focus": `tab ${name}`,
      }),
    ),
  );
}

function drawCase(cases, group, focused) {
  const name = state.case;
  CASE.hidden = !name;
  MAIN.classList.toggle("split", Boolean(name));
  document.body.classList.toggle("chosen", Boolean(name));
  const same = drawn.case === name && drawn.set === state.set;
  const { scrollTop } = CASE;
  CASE.replaceChildren(...(name ? detailPanel(chosenCase(group, cases), group).flat(Infinity).filter(Boolean) : []));
  CASE.scrollTop = same ? scrollTop : 0;
  if (same) return;
  if (name && !drawn.case) opener = focused;
  if (name && drawn.case !== undefined) CASE.focus({ preventScroll: true });
  if (!name && drawn.case) refocus(opener || `case ${drawn.case}`);
}

/** Restores the focus after elements were replaced. */
function refocus(name) {
  const same = document.querySelector(`[data-focus="${CSS.escape(name)}"]`);
  if (same && (CASE.hidden || !CASE.contains(document.activeElement))) same.focus({ preventScroll: true });
}

/** Arrow keys switch tabs, Escape closes the case. */
function onKey(event) {
  if (event.key === "Escape" && state.case) go({ case: "" });
  const tab = event.target.closest && event.target.closest("[role=tab]");
  const names = viewsOf(groupOf(state.set));
  const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -names.length, End: names.length };
  if (!tab || !(event.key in moves)) return;
  event.preventDefault();
  const at = names.indexOf(tab.id.replace("tab-", "")) + moves[event.key];
  const to = Math.min(names.length - 1, Math.max(0, at));
  document.getElementById(`tab-${names[to]}`).focus();
  go({ view: names[to] });
}

function onRowClick(event) {
  const row = event.target.closest("tr[data-case]");
  if (row && !event.target.closest("a") && !String(getSelection())) go({ case: row.dataset.case });
}

window.addEventListener("hashchange", () => {
  state = parseHash(location.hash);
  draw();
});
document.addEventListener("keydown", onKey);
VIEW.addEventListener("click", onRowClick);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  VIEW.focus();
});
drawFoot();
draw();
