// The tree of a model's modules, with the calls of each: folded and unfolded by mouse or keys.

const OTHERS = "(further modules)"; // of calls that more modules make than are recorded by name
const ROOM = 40; // rows up to which the tree is unfolded at first
const MOST_NODES = 500; // rows drawn at a time
const FOLDED = new Map(); // path of a node → whether the reader folded it; others follow `depth`

function modulesPanel(makes) {
  const all = state.rows === "all";
  const rows = makes.filter((row) => all || row.failingCalls > 0).sort((one, other) => other.failingCalls - one.failingCalls);
  const roots = rows.map((row) => treeOf(row, all));
  const failing = sum(makes.map((row) => row.failingCalls));
  const tree = { roots, depth: depthOf(roots), limit: MOST_NODES };
  const body = el("tbody", { onclick: (event) => onTreeClick(event, tree), onkeydown: (event) => onTreeKey(event, tree) });
  tree.body = body;
  drawTree(tree);
  return panel(
    "Calls by module",
    failing
      ? "Calls are counted in each module that makes them. Arrow keys move, fold and unfold; Enter selects a call."
      : "No call of a model runs out of memory among the cases that pass the filters.",
    el(
      "p.choice",
      link({ rows: "" }, "modules with failures", { "aria-current": all ? null : "true", "data-focus": "failing modules" }),
      link({ rows: "all" }, "all modules", { "aria-current": all ? "true" : null, "data-focus": "all modules" }),
      roots.length > 0 && el("button", { type: "button", onclick: () => foldAll(tree, false) }, "unfold all"),
      roots.length > 0 && el("button", { type: "button", onclick: () => foldAll(tree, true) }, "fold all"),
    ),
    roots.length > 0 && scrolling("Calls by module", [el("thead", el("tr", TREE_COLUMNS.map(treeHead))), body], { role: "treegrid" }),
  );
}

const TREE_COLUMNS = [
  ["Module, call", ""],
  ["Verdict", "minor2"],
  ["Calls", "number minor1"],
  ["OOM", "number"],
  ["Short per bank", "number"],
  ["What makes it fit", "minor1"],
];

function treeHead([title, kind]) {
  return el("th", { scope: "col", class: kind || null }, title);
}

/** Returns the tree of a model: nodes with the calls below them. `all`: with the calls that do not fail. */
function treeOf(row, all) {
  const root = nodeOf(row.model || `catalog ${row.catalog}`, row.key, 0);
  root.about = [row.input, row.capture].filter(Boolean).join(" ");
  for (const { item, source } of row.all) {
    for (const [path, calls] of source.modules) place(root, path.split("."), item, calls, all);
    const unnamed = source.calls - sum(source.modules.map(([, calls]) => calls));
    if (unnamed > 0) place(root, [source.others[0] ? OTHERS : UNNAMED], item, unnamed, all);
  }
  sortTree(root);
  return root;
}

function nodeOf(name, path, level) {
  return { name, path, level, parts: new Map(), calls: 0, failing: 0, short: null, items: [], leaves: [] };
}

function place(root, names, item, calls, all) {
  let node = root;
  tell(node, item, calls);
  for (const name of names) {
    if (!node.parts.has(name)) node.parts.set(name, nodeOf(name, `${node.path}.${name}`, node.level + 1));
    node = node.parts.get(name);
    tell(node, item, calls);
  }
  if (all || item.oom) node.leaves.push({ item, calls, level: node.level + 1, path: `${node.path}:${item.name}` });
}

/** Adds the calls to the figures of a node. */
function tell(node, item, calls) {
  node.calls += calls;
  if (!item.oom) return;
  node.failing += calls;
  if (item.short !== null && item.short > (node.short ?? -1)) node.short = item.short;
  node.items.push({ item, calls });
}

function sortTree(node) {
  node.children = [...node.parts.values()].sort((one, other) => byName(one.name, other.name));
  node.leaves.sort((one, other) => other.item.oom - one.item.oom || (other.item.short ?? -1) - (one.item.short ?? -1));
  node.children.forEach(sortTree);
}

/** Returns the nodes of a tree that are shown in this mode: without `all`, those with failing calls. */
function below(node) {
  return [...node.children.filter((child) => state.rows === "all" || child.failing > 0), ...node.leaves];
}

/** Returns the level down to which all nodes take no more than ROOM rows. */
function depthOf(roots) {
  let [depth, rows, level] = [0, roots.length, roots];
  while (level.length) {
    level = level.filter((node) => node.children).flatMap(below);
    rows += level.length;
    if (rows > ROOM) break;
    depth += 1;
  }
  return depth;
}

function isFolded(node, tree) {
  return FOLDED.get(node.path) ?? node.level >= tree.depth;
}

/** Returns the rows in view, from top to bottom. */
function unfolded(tree) {
  const rows = [];
  const add = (node) => {
    rows.push(node);
    if (node.children && !isFolded(node, tree)) for (const child of below(node)) add(child);
  };
  tree.roots.forEach(add);
  return rows;
}

function foldAll(tree, folded) {
  const set = (node) => {
    FOLDED.set(node.path, folded);
    node.children.forEach(set);
  };
  tree.roots.forEach(set);
  drawTree(tree);
}

function drawTree(tree) {
  const rows = unfolded(tree);
  const shown = rows.slice(0, tree.limit);
  tree.rows = shown;
  tree.body.replaceChildren(
    ...shown.map((node, index) => (node.children ? moduleRow(node, index, isFolded(node, tree)) : callRow(node, index))),
    ...(rows.length > shown.length ? [moreRow(tree, rows.length - shown.length)] : []),
  );
}

function moduleRow(node, index, folded) {
  return el(
    "tr",
    {
      class: node.level === 0 ? "module root" : "module",
      "aria-level": node.level + 1,
      "aria-expanded": String(!folded),
      tabindex: index ? "-1" : "0",
      "data-index": index,
      "data-focus": `module ${node.path}`,
    },
    el(
      "td",
      el("span.name", indent(node.level), el("span.twist", { "aria-hidden": "true" }, folded ? "▸" : "▾"), el("span.mono", node.name), node.about && el("span.hint", ` ${node.about}`)),
      node.failing > 0 && el("span.narrow", { style: inset(node.level) }, remediesCell(node.items)),
    ),
    el("td.minor2", lettersOf(node.items)),
    el("td.number.minor1", count(node.calls)),
    el("td.number", node.failing ? el("b", count(node.failing)) : "0"),
    el("td.number", node.short === null ? NONE : size(node.short)),
    el("td.minor1", node.failing > 0 && remediesCell(node.items)),
  );
}

function callRow({ item, calls, level, path }, index) {
  return el(
    "tr",
    {
      class: item.name === state.case ? "call selected" : "call",
      "aria-level": level + 1,
      tabindex: index ? "-1" : "0",
      "data-case": item.name,
      "data-index": index,
      "data-focus": `call ${path}`,
    },
    el(
      "td",
      el("span.name", indent(level + 1), el("span.op", item.op), " ", el("span.mono.shape", item.shape)),
      el("span.narrow", { style: inset(level) }, remedyCell(item)),
    ),
    el("td.minor2", badge(item)),
    el("td.number.minor1", count(calls)),
    el("td.number", item.oom ? count(calls) : "0"),
    el("td.number.lack", item.oom ? size(item.short) : NONE),
    el("td.minor1", remedyCell(item)),
  );
}

function indent(level) {
  return el("span.indent", { style: { width: `${level * 16}px` } });
}

/** The style of a line below the name of a node. */
function inset(level) {
  return { "padding-left": `${16 * (level + 1)}px` };
}

function moreRow(tree, number) {
  const more = () => {
    tree.limit += MOST_NODES;
    drawTree(tree);
  };
  return el("tr", el("td", { colspan: TREE_COLUMNS.length }, el("button", { type: "button", onclick: more }, `show ${plural(number, "more row")}`)));
}

/** A letter for each kind of verdict among failing calls. */
function lettersOf(items) {
  const kinds = new Map(items.map(({ item }) => [verdictOf(item).name, verdictOf(item)]));
  return [...kinds.values()].map(({ name, letter, tone }) => [
    el("span", { class: `cell ${tone}`, title: name, role: "img", "aria-label": name }, letter),
    " ",
  ]);
}

function onTreeClick(event, tree) {
  const row = event.target.closest("tr.module");
  if (row) toggle(tree, Number(row.dataset.index));
}

function toggle(tree, index) {
  const node = tree.rows[index];
  FOLDED.set(node.path, !isFolded(node, tree));
  drawTree(tree);
  focusRow(tree, index);
}

function focusRow(tree, index) {
  const to = tree.body.rows[index];
  if (!to || !to.dataset.index) return;
  for (const row of tree.body.rows) row.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

/** Moves, folds and unfolds as in any tree of files. */
function onTreeKey(event, tree) {
  const row = event.target.closest("tr[data-index]");
  if (!row || event.target !== row || event.ctrlKey || event.altKey || event.metaKey) return;
  const index = Number(row.dataset.index);
  const node = tree.rows[index];
  const isOpen = node.children && !isFolded(node, tree);
  const parent = tree.rows.findLastIndex((other, place) => place < index && other.level < node.level);
  const moves = {
    ArrowDown: () => focusRow(tree, index + 1),
    ArrowUp: () => focusRow(tree, index - 1),
    Home: () => focusRow(tree, 0),
    End: () => focusRow(tree, tree.rows.length - 1),
    ArrowRight: () => (node.children && !isOpen ? toggle(tree, index) : focusRow(tree, index + 1)),
    ArrowLeft: () => (isOpen ? toggle(tree, index) : focusRow(tree, parent)),
    Enter: () => (node.children ? toggle(tree, index) : go({ case: node.item.name })),
    " ": () => (node.children ? toggle(tree, index) : go({ case: node.item.name })),
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}
