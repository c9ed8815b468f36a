// The panel of the selected call: its figures, its tensors, and what was resident, each with its line, age and last use.

const SHOWN = 100;

/** Returns the panel, which follows the selection. */
function callPanel(p) {
  const host = el("div");
  const choice = { memory: null, limit: SHOWN };
  let shown = -1;
  const show = () => {
    if (shown === view.row) return;
    shown = view.row;
    choice.limit = SHOWN;
    host.replaceChildren(...callParts(p, callAt(p, view.row), choice));
  };
  onView(show);
  const step = (text, title, change) => el("button", { type: "button", title, "aria-label": title, onclick: () => select(view.row + change) }, text);
  const search = el("input", { type: "number", min: "0", max: String(Math.max(0, p.total - 1)), "aria-label": "Number of a call", placeholder: "number" });
  const go = (event) => {
    event.preventDefault();
    if (search.value !== "") selectCall(Number(search.value));
  };
  const form = el("form.go-to", { onsubmit: go }, search, el("button", "Go"));
  const tools = el("p.tools", step("‹", "The call before", -1), step("›", "The call after", 1), landmarks(p));
  return el("section.panel", { id: "call" }, el("h2", "Selected call"), el("div.bar", tools, form), host);
}

/** Buttons that select the calls worth looking at. */
function landmarks(p) {
  const to = (text, number) => el("button", { type: "button", onclick: () => selectCall(number) }, text);
  return [
    p.used.map((memory) => to(`Peak of ${MEMORIES[memory].title}`, p.peaks[memory].call)),
    p.fullest !== null && to("Least headroom", p.fullest),
    p.failure && to(p.failure.outOfMemory ? "Out of memory" : "Last error", p.failure.call),
  ];
}

function callParts(p, call, choice) {
  const stack = call.stack.map((site) => el("li.mono", siteText(p, site, false)));
  const tensors = (name, texts) => texts.length > 0 && el("div", el("dt", name), texts.map((text) => el("dd.mono", text)));
  return [
    el("p.headline", `call ${count(call.number)} `, el("b.mono", call.name), " ", el("span.hint", `at ${lineOf(p, call.stack)}, ${count(call.us)} µs on the host`)),
    call.error && el("details.raised", { open: true }, el("summary", "It raised"), el("pre.message", call.error)),
    el("div.figures-of", figureTable(call), programWords(call)),
    el("dl.tensors", tensors("operands", call.operands), tensors("results", call.results)),
    stack.length > 1 && el("details", el("summary", `Called from ${plural(stack.length, "line")}, innermost first`), el("ol.stack-of", stack)),
    residentPart(p, call, choice),
  ].filter(Boolean);
}

function figureTable(call) {
  const used = call.memories.filter((one) => one.bank && (one.peak || one.after || one.before || one.memory === "l1" || one.memory === "dram"));
  const cell = (value) => el("td.number", value === null ? "not on this page" : bytes(value), value >= 1024 && el("span.exact", exact(value)));
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": "Bytes of the call: scrolls" },
    el(
      "table",
      { "aria-label": "Bytes of the call" },
      el("thead", el("tr", ["", "before", "most within", "after", "largest free block", "of"].map((name, i) => el("th", { scope: "col", class: i > 0 && "number" }, name)))),
      el("tbody", used.map((one) =>
        el("tr", el("th", { scope: "row" }, `${MEMORIES[one.memory].title}, ${MEMORIES[one.memory].per}`), cell(one.before), cell(one.peak), cell(one.after), cell(one.largest), cell(one.bank)),
      )),
    ),
  );
}

function programWords(call) {
  if (!call.programs) return el("p.hint", "No program ran.");
  const unknown = call.unknown ? ` TTNN did not report the program buffers of ${call.unknown} of them.` : "";
  const known = call.program === null ? "" : ` Program buffers of the largest: ${both(call.program)} on the fullest core.`;
  const room = call.headroom === null ? "" : ` Least headroom below the buffers: ${call.unknown ? "at most " : ""}${both(call.headroom)}, with ${call.fullest}.`;
  return el("p.hint", `${plural(call.programs, "program")} ran.${known}${room}${unknown}`);
}

function residentPart(p, call, choice) {
  const host = el("div");
  const held = Object.fromEntries(p.used.map((memory) => [memory, residentDuring(p, memory, call.number)]));
  if (!p.used.includes(choice.memory)) choice.memory = p.used.find((memory) => memory === "l1" && held.l1.length) ?? p.used.find((memory) => held[memory].length) ?? p.used[0];
  const buttons = p.used.map((memory) =>
    el("button", { type: "button", onclick: () => { choice.memory = memory; choice.limit = SHOWN; draw(); } }, `${MEMORIES[memory].title} (${count(held[memory].length)})`),
  );
  const more = el("button", { type: "button", onclick: () => { choice.limit += 5 * SHOWN; draw(); } });
  function draw() {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", p.used[place] === choice.memory));
    const places = held[choice.memory] ?? [];
    const total = sizeOf(p, places);
    more.hidden = places.length <= choice.limit;
    more.textContent = `Show ${count(Math.min(5 * SHOWN, places.length - choice.limit))} more`;
    host.replaceChildren(
      places.length
        ? el("p.hint", `${plural(places.length, "buffer")}, ${both(total)} ${MEMORIES[choice.memory].per} in sum; not all at once where one was freed before another was made within the call.`)
        : el("p.empty", `No buffer was resident in ${MEMORIES[choice.memory].title}.`),
      ...(places.length ? [residentTable(p, call, places.slice(0, choice.limit))] : []),
    );
  }
  if (!p.used.length) return null;
  draw();
  return el("div", el("h3", "Resident during the call"), el("p.tools", { role: "group", "aria-label": "Memory" }, buttons), host, more);
}

function residentTable(p, call, places) {
  const { buffers } = p;
  const heads = ["size", "tensor", "made by", "age", "last use", "freed", "address"];
  const row = (i) =>
    el(
      "tr",
      el("td.number", bytes(buffers.size[i]), buffers.size[i] >= 1024 && el("span.exact", exact(buffers.size[i]))),
      el("td.mono", p.texts[buffers.tensor[i]] || "–"),
      el("td.wide", buffers.between[i] ? "before " : "", toCall(p, buffers.made[i]), el("span.exact", makerText(p, i))),
      el("td.number", plural(call.number - buffers.made[i], "call")),
      el("td", useText(p, i, call.number)),
      el("td.wide", freedText(p, i)),
      el("td.number", count(buffers.address[i])),
    );
  return el(
    "div.scroll",
    { tabindex: "0", role: "group", "aria-label": "Resident buffers: scrolls" },
    el(
      "table",
      { "aria-label": "Resident buffers" },
      el("thead", el("tr", heads.map((name) => el("th", { scope: "col", class: ["size", "age", "address"].includes(name) && "number" }, name)))),
      el("tbody", places.map(row)),
    ),
  );
}

/** "ttnn.matmul, net.py:30 (block)": the operation and the line that made a buffer. */
function makerText(p, i) {
  return `${p.texts[p.buffers.by[i]]}, ${lineOf(p, p.stacks[p.buffers.stack[i]])}`;
}

/** Returns a button that selects a call. */
function toCall(p, number) {
  const row = rowAt(p, number);
  if (row >= p.rows || p.calls.number[row] !== number) return el("span", `call ${count(number)}`);
  return el("button.go", { type: "button", onclick: () => select(row) }, `call ${count(number)}`);
}

function useText(p, i, number) {
  const use = p.buffers.use[i];
  if (use === p.buffers.made[i] && p.buffers.tensor[i] === "") return "by no call";
  const distance = use - number;
  const when = distance === 0 ? "this call" : distance > 0 ? `${plural(distance, "call")} later` : `${plural(-distance, "call")} ago`;
  return [distance === 0 ? null : toCall(p, use), el("span.exact", when)];
}

function freedText(p, i) {
  const { freed, freedBetween } = p.buffers;
  if (freed[i] === null) return "never: with its device";
  if (freedBetween[i]) return [`before `, toCall(p, freed[i]), el("span.exact", "its last reference went")];
  const row = rowAt(p, freed[i]);
  const isHere = row < p.rows && p.calls.number[row] === freed[i];
  return [`in `, toCall(p, freed[i]), isHere && el("span.exact", `by ${p.texts[p.calls.name[row]]}, ${lineOf(p, p.stacks[p.calls.stack[row]])}`)];
}

/** "made in call 3, last used in 7, freed in 12" */
function lifeText(p, i) {
  const { made, between, use, freed, freedBetween } = p.buffers;
  const end = freed[i] === null ? "resident to the end of its device" : `freed ${freedBetween[i] ? "before" : "in"} call ${count(freed[i])}`;
  return `made ${between[i] ? "before" : "in"} call ${count(made[i])}, last used in ${count(use[i])}, ${end}`;
}
