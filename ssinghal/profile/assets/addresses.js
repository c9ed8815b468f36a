// Where buffers are: the addresses of a memory at the selected call, and over the calls.

const COLOURS = 8; // of buffers: they only tell neighbours apart

/** Returns the panel of addresses. */
function addressPanel(p) {
  const choice = { memory: p.used.includes("l1") ? "l1" : p.used[0] };
  const name = el("span.hint");
  const buttons = p.used.map((memory) =>
    el("button", { type: "button", onclick: () => { choice.memory = memory; changed(); } }, MEMORIES[memory].title),
  );
  onView(() => {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", p.used[place] === choice.memory));
    name.textContent = `${MEMORIES[choice.memory].title}, one ${choice.memory.startsWith("l1") ? "core" : "bank"}`;
  });
  return panel(
    "Addresses",
    "TTNN books a buffer at the same address in each bank, with the size that the fullest bank needs: one bank stands for all. Colours only separate neighbours.",
    el("p.tools", { role: "group", "aria-label": "Memory" }, buttons, name),
    addressStrip(p, choice),
    el("h3", "Over the calls"),
    addressHistory(p, choice),
    el(
      "ul.keys",
      el("li", el("i.key.buffers"), "buffers"),
      el("li", el("i.key.gone"), "freed within the selected call"),
      el("li", el("i.key.program"), "program buffers of the fullest core, from the bottom (L1)"),
      el("li", el("i.key.hole"), "free"),
    ),
  );
}

/** Returns [low, high) of the addresses that a picture shows: all of L1, of other memories what buffers ever took. */
function addressRange(p, memory) {
  const device = deviceAt(p, view.row);
  if (memory === "l1") return [device.base, device.base + bankAt(p, "l1", view.row)];
  const { buffers } = p;
  const wanted = MEMORY_NUMBERS.indexOf(memory);
  let [low, high] = [Infinity, 0];
  for (let i = 0; i < buffers.size.length; i++) {
    if (buffers.memory[i] !== wanted) continue;
    low = Math.min(low, buffers.address[i]);
    high = Math.max(high, buffers.address[i] + buffers.size[i]);
  }
  return low < high ? [low, high] : [0, 1];
}

/** Returns free intervals of [low, high) that buffers (and program buffers below) leave. */
function holesOf(p, places, low, high, program) {
  const { buffers } = p;
  const holes = [];
  let end = low + program;
  for (const i of [...places].sort((one, other) => buffers.address[one] - buffers.address[other])) {
    if (buffers.address[i] > end) holes.push([end, buffers.address[i]]);
    end = Math.max(end, buffers.address[i] + buffers.size[i]);
  }
  if (high > end) holes.push([end, high]);
  return holes;
}

function colourOf(i) {
  return (i * 3) % COLOURS;
}

function addressStrip(p, choice) {
  const height = 64;
  const canvas = el("canvas", { "aria-hidden": "true" });
  const words = el("p.hint", { role: "status" });
  const host = el("div.strip", { style: { height: `${height}px` } }, canvas);
  function draw() {
    const width = host.clientWidth;
    if (!width || !choice.memory) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    const [low, high] = addressRange(p, choice.memory);
    const x = (address) => ((address - low) / (high - low)) * width;
    const number = p.calls.number[view.row];
    const places = residentDuring(p, choice.memory, number);
    const program = choice.memory === "l1" ? p.calls.program[view.row] ?? 0 : 0;
    const bar = 42;
    context.fillStyle = tone("sunk");
    context.fillRect(0, 0, width, bar);
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const i of places) {
      const { buffers } = p;
      const [left, right] = [x(buffers.address[i]), x(buffers.address[i] + buffers.size[i])];
      const isGone = buffers.freed[i] === number;
      const colour = `buffer-${colourOf(i)}`;
      context.fillStyle = isGone ? stripes(context, colour) : tone(colour);
      context.fillRect(left, 0, Math.max(1, right - left - (right - left > 4 ? 1 : 0)), bar);
      context.fillStyle = tone("text");
      fittedText(context, `${bytes(buffers.size[i])} ${p.texts[buffers.tensor[i]]}`, left + 5, bar / 2, right - left - 9);
    }
    const holes = holesOf(p, places, low, high, program);
    context.fillStyle = tone("muted");
    for (const [from, to] of holes) fittedText(context, `free ${bytes(to - from)}`, x(from) + 5, bar / 2, x(to) - x(from) - 9);
    if (program) {
      context.fillStyle = stripes(context, "program");
      context.fillRect(0, 0, x(low + program), bar);
      context.fillStyle = tone("text");
      fittedText(context, `program ${bytes(program)}`, 5, bar / 2, x(low + program) - 9);
    }
    context.fillStyle = tone("muted");
    context.textBaseline = "top";
    context.fillText(`address ${count(low)}`, 0, bar + 6);
    context.textAlign = "right";
    context.fillText(count(high), width, bar + 6);
    words.textContent = stripWords(places, holes, program);
  }
  function stripWords(places, holes, program) {
    const sizes = holes.map(([from, to]) => to - from);
    const free = sizes.reduce((sum, size) => sum + size, 0);
    const largest = Math.max(0, ...sizes);
    const where = holes.find(([from, to]) => to - from === largest);
    const scope = choice.memory === "l1" ? "" : " among the addresses that buffers ever took";
    const headroom = p.calls.headroom[view.row];
    const clash = program && headroom < 0 ? ` Program buffers reach ${both(-headroom)} into the lowest buffer.` : "";
    const beside = program ? `, program buffers ${both(program)}` : "";
    const rest = sizes.length ? `${both(free)} free in ${plural(sizes.length, "block")}, the largest ${both(largest)} at ${count(where[0])}` : "nothing free";
    return `Call ${count(p.calls.number[view.row])}: ${plural(places.length, "buffer")}${beside}; ${rest}${scope}.${clash}`;
  }
  onResize(host);
  onView(draw);
  return el("div", host, words);
}

function addressHistory(p, choice) {
  const { buffers } = p;
  const bottomOf = (frame) => frame.height - 20;
  const text = (i) => `${bytes(buffers.size[i])} at ${count(buffers.address[i])}: ${p.texts[buffers.tensor[i]] || "not used by a call"}`;
  function under(row, y, frame) {
    const [low, high] = addressRange(p, choice.memory);
    const address = low + ((bottomOf(frame) - y) / (bottomOf(frame) - 2)) * (high - low);
    const found = residentDuring(p, choice.memory, p.calls.number[row]);
    return found.find((i) => buffers.address[i] <= address && address < buffers.address[i] + buffers.size[i]);
  }
  return plot({
    label: "Addresses over the calls",
    height: 280,
    describe(row, y, frame) {
      const i = under(row, y, frame);
      return i === undefined ? [shortText(p, row), "nothing there"] : [text(i), `made by ${makerText(p, i)}`, lifeText(p, i)];
    },
    draw(context, frame) {
      if (!choice.memory) return;
      const bottom = bottomOf(frame);
      const [low, high] = addressRange(p, choice.memory);
      const y = (address) => bottom - (bottom - 2) * ((address - low) / (high - low));
      byteAxis(context, { ...frame, height: bottom }, high - low, (size) => y(low + size), (size) => `+${bytes(size)}`);
      const wanted = MEMORY_NUMBERS.indexOf(choice.memory);
      const ends = [frame.left, frame.left + frame.width];
      context.save();
      context.beginPath();
      context.rect(ends[0], 0, frame.width, bottom);
      context.clip();
      const fills = Array.from({ length: COLOURS }, (_, colour) => tone(`buffer-${colour}`));
      const painted = new Set(); // places of those that are narrower than a pixel: a loop has many at the same
      for (let i = 0; i < buffers.size.length; i++) {
        if (buffers.memory[i] !== wanted || p.toRow[i] <= view.from || p.fromRow[i] >= view.to) continue;
        const left = Math.max(ends[0], frame.x(p.fromRow[i]));
        const right = Math.min(ends[1], frame.x(Math.max(p.toRow[i], p.fromRow[i] + 1)));
        const top = Math.round(y(buffers.address[i] + buffers.size[i]));
        const high = Math.max(1, Math.round(y(buffers.address[i])) - top);
        const column = Math.floor(left);
        if (right - left < 1) {
          const place = (column * 1000 + top) * 1000 + high;
          if (painted.has(place)) continue;
          painted.add(place);
        }
        context.fillStyle = fills[colourOf(i)];
        context.fillRect(column, top, Math.max(1, Math.floor(right) - column - (right - left > 4)), Math.max(1, high - (high > 4)));
      }
      if (choice.memory === "l1") drawPrograms(context, frame, low, y);
      context.restore();
      callAxis(context, frame, bottom);
    },
  });
  function drawPrograms(context, frame, low, y) {
    const programs = p.calls.program;
    context.fillStyle = stripes(context, "program");
    for (let x = 0; x < frame.width; x++) {
      const from = Math.floor(frame.row(frame.left + x));
      const to = Math.min(p.rows, Math.max(from + 1, Math.floor(frame.row(frame.left + x + 1))));
      let most = 0;
      for (let row = from; row < to; row++) if (programs[row] > most) most = programs[row];
      if (most) context.fillRect(frame.left + x, y(low + most), 1, y(low) - y(low + most));
    }
  }
}
