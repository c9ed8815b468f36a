// The timeline: bands of functions, and what each memory held, call after call.

const LANE = 18;

/** Returns the panel of the timeline. */
function timelinePanel(p) {
  const status = el("span.hint", { role: "status" });
  onView(() => {
    const [from, to] = [Math.floor(view.from), Math.min(p.rows - 1, Math.ceil(view.to) - 1)];
    const isAll = view.to - view.from >= p.rows;
    status.textContent = isAll ? `all ${plural(p.rows, "call")}` : `calls ${count(p.calls.number[from])} to ${count(p.calls.number[to])} of ${count(p.total)}`;
  });
  const button = (text, title, act) => el("button", { type: "button", title, "aria-label": title, onclick: act }, text);
  return panel(
    "Timeline",
    "Drag over calls to zoom in, double-click to zoom out. A click selects a call; after it the wheel zooms, and the keys ← → + − 0 work, until Esc.",
    el(
      "p.tools",
      button("+", "Zoom in", () => zoomBy(0.5, inView(view.row))),
      button("−", "Zoom out", () => zoomBy(2, inView(view.row))),
      button("◀", "Earlier calls", () => pan(-0.5)),
      button("▶", "Later calls", () => pan(0.5)),
      button("All", "Show all calls", () => zoomTo(0, p.rows)),
      status,
    ),
    p.bands.length && bandsPlot(p),
    p.used.map((memory) => memoryFigure(p, memory)),
    !p.used.length && el("p.empty", "No buffer was allocated on the device."),
  );
}

/** The selected row if it is in view, else the middle. */
function inView(row) {
  return row >= view.from && row < view.to ? row + 0.5 : (view.from + view.to) / 2;
}

function bandsPlot(p) {
  const at = (row, y) => p.bands[Math.floor(y / LANE)]?.find((band) => band.from <= row && band.to > row);
  return plot({
    label: "Functions and tests over the calls",
    height: p.bands.length * LANE + 2,
    describe: (row, y) => [at(row, y)?.title].filter(Boolean),
    press: (row, y) => {
      const band = at(row, y);
      if (band) zoomTo(band.from, band.to);
      return Boolean(band);
    },
    draw(context, frame) {
      context.textAlign = "left";
      context.textBaseline = "middle";
      p.bands.forEach((bands, lane) => {
        let painted = frame.left;
        let isOdd = false;
        for (const band of bands) {
          isOdd = !isOdd;
          if (band.to <= view.from || band.from >= view.to) continue;
          const left = Math.max(frame.left, frame.x(band.from));
          const right = Math.min(frame.left + frame.width, frame.x(band.to));
          if (right - painted < 0.7) continue; // too narrow to be seen
          painted = right;
          context.fillStyle = tone(isOdd ? "band" : "band-other");
          context.fillRect(left, lane * LANE + 1, Math.max(0.7, right - left - (right - left > 3 ? 1 : 0)), LANE - 2);
          context.fillStyle = tone("text");
          fittedText(context, band.label, left + 4, lane * LANE + LANE / 2 + 1, right - left - 8);
        }
      });
      context.fillStyle = tone("muted");
      context.textAlign = "right";
      if (p.spans.length) context.fillText("tests", frame.left - 6, LANE / 2 + 1);
      if (p.bands.length > (p.spans.length ? 1 : 0)) context.fillText("functions", frame.left - 6, (p.spans.length ? 1.5 : 0.5) * LANE + 1);
    },
  });
}

function memoryFigure(p, memory) {
  const { title, per, tone: colour } = MEMORIES[memory];
  const peak = p.peaks[memory];
  const bases = p.calls.base[memory];
  const peakSize = peakOf(p, memory);
  const bank = Math.max(...p.devices.map((device) => device.memories[memory]?.[1] ?? 0));
  const isL1 = memory === "l1";
  const hasSmall = p.devices.some((device) => device.memories.l1_small?.[1] > 0);
  const reserved = isL1 ? Math.max(...p.devices.map((device) => device.top)) - bank : 0;
  let full = peakSize;
  if (isL1) p.calls.full.forEach((size, row) => (full = Math.max(full, (size ?? 0) + bases[row])));
  let isToLimit = full > 0.4 * bank;
  const scale = el("button", { type: "button", onclick: () => { isToLimit = !isToLimit; changed(); } });
  const field = plot({
    label: `${title} over the calls`,
    height: 190,
    describe: (row) => [shortText(p, row), ...callFigures(callAt(p, row), memory)],
    draw(context, frame) {
      scale.textContent = isToLimit ? "Scale to the peak" : "Scale to the limit";
      const bottom = frame.height - 20;
      const top = isToLimit ? Math.max(bank + reserved, full) * 1.02 : full * 1.12 || 1;
      const y = (size) => bottom - (bottom - 6) * (size / top);
      byteAxis(context, { ...frame, height: bottom }, top, y);
      drawAreas(context, frame, y);
      if (bank < top) drawLimit(context, frame, y, top);
      drawMarks(context, frame, y);
      callAxis(context, frame, bottom);
    },
  });

  function drawAreas(context, frame, y) {
    const { calls } = p;
    const [peaks, afters] = [calls.peak[memory], calls.after[memory]];
    const programs = isL1 ? stripes(context, "program") : null;
    const bottom = Math.round(y(0));
    const right = Math.floor(frame.width);
    const column = (size, x, fill) => {
      const high = Math.round(y(size));
      context.fillStyle = fill;
      context.fillRect(frame.left + x, high, 1, Math.max(0, bottom - high));
    };
    const [within, after] = [`color-mix(in srgb, ${tone(colour)} 45%, ${tone("panel")})`, tone(colour)];
    for (let x = 0; x < right; x++) {
      const from = Math.floor(frame.row(frame.left + x));
      const to = Math.min(p.rows, Math.max(from + 1, Math.floor(frame.row(frame.left + x + 1))));
      let [most, kept, whole] = [0, 0, 0];
      for (let row = from; row < to; row++) {
        if (peaks[row] && peaks[row] + bases[row] > most) most = peaks[row] + bases[row];
        if (afters[row] > kept) kept = afters[row];
        if (isL1 && calls.full[row] !== null && calls.full[row] + bases[row] > whole) whole = calls.full[row] + bases[row];
      }
      if (whole > most) column(whole, x, programs);
      if (most > kept) column(most, x, within);
      if (kept > 0) column(kept, x, after);
    }
  }
  function drawLimit(context, frame, y, top) {
    const limit = Math.round(y(bank));
    if (reserved) {
      context.fillStyle = stripes(context, "none", -1);
      context.fillRect(frame.left, y(bank + reserved), frame.width, limit - y(bank + reserved));
    }
    context.fillStyle = tone("text");
    context.fillRect(frame.left, limit, frame.width, 1);
  }
  function drawMarks(context, frame, y) {
    const { calls } = p;
    const row = rowAt(p, peak.call);
    const x = frame.x(row + 0.5);
    if (x >= frame.left && x <= frame.left + frame.width) {
      context.beginPath();
      context.arc(x, y(peakSize), 4, 0, 7);
      context.fillStyle = tone("panel");
      context.fill();
      context.lineWidth = 2;
      context.strokeStyle = tone("text");
      context.stroke();
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    context.fillStyle = tone("fault");
    let painted = -9;
    for (let row = Math.max(0, Math.floor(view.from)); row < Math.min(p.rows, view.to); row++) {
      const at = frame.x(row + 0.5);
      if (calls.error[row] < 0 || at - painted < 8) continue;
      context.fillText("✕", at, 0);
      painted = at;
    }
    const inside = p.devices.filter((device) => { const at = rowAt(p, device.first); return at > view.from && at < view.to; });
    if (inside.length > frame.width / 8) return;
    context.fillStyle = tone("muted");
    for (const device of inside) {
      const at = Math.round(frame.x(rowAt(p, device.first)));
      for (let dash = 0; dash < frame.height - 20; dash += 6) context.fillRect(at, dash, 1, 3);
    }
  }

  const key = (name, words) => el("li", el("i.key", { class: name }), words);
  const hasErrors = p.calls.error.some((error) => error >= 0);
  return el(
    "figure.memory",
    el(
      "figcaption",
      el("h3", `${title}, ${per}`),
      el("span.hint", `peak ${both(peakSize)}, ${percent(peakSize, bank)} of ${both(bank)}`),
      scale,
    ),
    field,
    el(
      "ul.keys",
      key(`solid ${colour}`, "buffers after the call"),
      key(`weak ${colour}`, "buffers within the call, where that is more"),
      isL1 && key("program", "with program buffers on the fullest core"),
      isL1 && reserved > 0 && key("reserved", `reserved: ${bytes(reserved)}, firmware and kernels${hasSmall ? ", and L1_SMALL" : ""}`),
      key("limit", `limit: ${bytes(bank)}`),
      key("peak", "peak of buffers"),
      hasErrors && key("raised", "a call that raised"),
      p.devices.length > 1 && key("device", "a device was opened"),
    ),
    el("p.hidden", `${title}: peak ${both(peakSize)} in ${shortText(p, Math.min(p.rows - 1, rowAt(p, peak.call)))}.`),
  );
}

/** What a memory held at a call, in lines. */
function callFigures(call, memory) {
  const one = call.memories.find((held) => held.memory === memory);
  const lines = [`${both(one.after)} after it, ${both(one.peak)} within it`];
  if (memory === "l1" && call.program !== null) lines.push(`program buffers ${both(call.program)}, headroom ${call.unknown ? "at most " : ""}${both(call.headroom)}`);
  if (call.error) lines.push("it raised");
  return lines;
}
