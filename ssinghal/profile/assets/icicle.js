// The peak by line of the program: an icicle of the stacks that made what was resident, widths by bytes.

const NARROWEST = 0.004; // of the picture: what is narrower is joined

/** Returns the panel of peaks by line. */
function iciclePanel(p) {
  const moments = p.used.map((memory) => ({
    title: `Peak of ${MEMORIES[memory].title}`,
    memory,
    call: p.peaks[memory].call,
    resident: p.peaks[memory].resident,
  }));
  if (p.failure)
    for (const memory of p.used) {
      const resident = p.failure.resident.filter((i) => MEMORY_NUMBERS[p.buffers.memory[i]] === memory);
      if (resident.length) moments.push({ title: `Failure, ${MEMORIES[memory].title}`, memory, call: p.failure.call, resident });
    }
  if (!moments.length) return null;
  const host = el("div");
  const show = (moment) => {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", moments[place] === moment));
    host.replaceChildren(momentPart(p, moment));
  };
  const buttons = moments.map((moment) => el("button", { type: "button", onclick: () => show(moment) }, moment.title));
  const first = moments.find((moment) => moment.memory === "l1") ?? moments[0];
  show(first);
  return panel(
    "Peak by line",
    "What was resident at that moment, by the lines that made it: from the outermost function on top to the line of the call. A click enlarges a part.",
    el("p.tools", { role: "group", "aria-label": "Moment" }, buttons),
    host,
  );
}

function momentPart(p, moment) {
  const { title, per, tone: colour } = MEMORIES[moment.memory];
  const root = treeOf(p, moment.resident);
  const host = el("div.icicle", { role: "group", "aria-label": "Icicle of lines" });
  const path = el("p.hint", { role: "status" });
  root.label = `${title} ${per}`;
  const show = (node) => {
    host.replaceChildren(...cells(root, node, colour, show));
    path.textContent = `${trail(node)}: ${both(node.size)}, ${plural(node.count, "buffer")}, ${percent(node.size, root.size)} of this moment`;
  };
  show(root);
  const call = el("p", "In ", toCall(p, moment.call), `: ${both(root.size)} in ${plural(root.count, "buffer")}.`);
  return el("div", call, host, path, linesTable(p, moment));
}

function treeOf(p, resident) {
  const root = { label: "", size: 0, count: 0, children: new Map(), parent: null, depth: 0 };
  for (const i of resident) {
    const stack = [...(p.stacks[p.buffers.stack[i]] ?? [])].reverse().map((site) => siteText(p, site));
    if (!stack.length) stack.push("no line of the program");
    stack.push((p.buffers.between[i] ? "before " : "") + p.texts[p.buffers.by[i]]);
    let node = root;
    const size = p.buffers.size[i];
    for (const label of [null, ...stack]) {
      if (label !== null) {
        if (!node.children.has(label)) node.children.set(label, { label, size: 0, count: 0, children: new Map(), parent: node, depth: node.depth + 1 });
        node = node.children.get(label);
      }
      node.size += size;
      node.count += 1;
    }
  }
  return root;
}

function trail(node) {
  const labels = [];
  for (let one = node; one; one = one.parent) labels.unshift(one.label);
  return labels.join(" › ");
}

/** Returns the cells below `zoomed`, which fills the width, with those above it. */
function cells(root, zoomed, colour, show) {
  const made = [];
  const cell = (node, left, width, label) => {
    const text = `${label}: ${both(node.size)}, ${plural(node.count, "buffer")}`;
    const style = { left: `${100 * left}%`, width: `${100 * width}%`, top: `${node.depth * 24}px` };
    const own = el("button", { type: "button", class: `cell-of ${colour} ${node.depth % 2 ? "odd" : "even"}`, title: text, "aria-label": text, style, onclick: () => show(node) }, label);
    made.push(own);
    deepest = Math.max(deepest, node.depth);
  };
  let deepest = 0;
  for (let one = zoomed; one; one = one.parent) cell(one, 0, 1, one.label);
  const below = (node, left, width) => {
    let at = left;
    let rest = { size: 0, count: 0, depth: node.depth + 1, parts: 0 };
    for (const child of [...node.children.values()].sort((one, other) => other.size - one.size)) {
      const share = (width * child.size) / node.size;
      if (share < NARROWEST) {
        rest = { ...rest, size: rest.size + child.size, count: rest.count + child.count, parts: rest.parts + 1 };
        continue;
      }
      cell(child, at, share, child.label);
      below(child, at, share);
      at += share;
    }
    if (rest.parts) {
      const text = `${plural(rest.parts, "narrower part")}: ${both(rest.size)}, ${plural(rest.count, "buffer")}`;
      const style = { left: `${100 * at}%`, width: `${(100 * width * rest.size) / node.size}%`, top: `${rest.depth * 24}px` };
      made.push(el("span", { class: "cell-of rest", title: text, style }, "…"));
      deepest = Math.max(deepest, rest.depth);
    }
  };
  below(zoomed, 0, 1);
  return [el("div", { style: { height: `${(deepest + 1) * 24}px` } }), ...made];
}

/** The same as a table: the bytes of each line. */
function linesTable(p, moment) {
  const lines = new Map();
  for (const i of moment.resident) {
    const key = makerText(p, i);
    const line = lines.get(key) ?? { key, size: 0, count: 0 };
    lines.set(key, { key, size: line.size + p.buffers.size[i], count: line.count + 1 });
  }
  const sorted = [...lines.values()].sort((one, other) => other.size - one.size);
  const row = ({ key, size, count: number }) =>
    el("tr", el("td.number", bytes(size), size >= 1024 && el("span.exact", exact(size))), el("td.number", count(number)), el("td.mono.wide", key));
  const head = el("thead", el("tr", el("th.number", { scope: "col" }, "size"), el("th.number", { scope: "col" }, "buffers"), el("th", { scope: "col" }, "made by")));
  return el(
    "details",
    el("summary", `The same as a table: ${plural(sorted.length, "line")}`),
    el("div.scroll", { tabindex: "0", role: "group", "aria-label": "Lines: scrolls" }, el("table", { "aria-label": "Lines" }, head, el("tbody", sorted.slice(0, SHOWN).map(row)))),
    sorted.length > SHOWN && el("p.hint", `${plural(sorted.length - SHOWN, "smaller line")} not shown`),
  );
}
