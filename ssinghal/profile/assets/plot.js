// A canvas over the calls in view: sizes, colours, axes, and what pointer, wheel and keys do on it.

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const probe = document.body.appendChild(el("span", { hidden: true }));
const tones = new Map();

/** Returns the colour of a custom property in the present colour scheme. */
function tone(name) {
  if (!tones.has(name)) {
    probe.style.setProperty("color", `var(--${name})`);
    tones.set(name, getComputedStyle(probe).color);
  }
  return tones.get(name);
}

/** Returns a pattern of stripes, so that an area is told by more than its colour. */
function stripes(context, name, slope = 1) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.globalAlpha = 0.3;
  pen.fillStyle = tone(name);
  pen.fillRect(0, 0, 8, 8);
  pen.globalAlpha = 1;
  pen.strokeStyle = tone(name);
  pen.lineWidth = 2;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) {
    pen.moveTo(shift - 1, slope > 0 ? 9 : -1);
    pen.lineTo(shift + 9, slope > 0 ? -1 : 9);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

/**
 * Returns a plot over the calls in view. `draw(context, frame)` draws it; `frame` has `left`, `width`, `height` of the field and
 * `x(row)`. `describe(row, y)` returns the text of a place under the pointer; `press(row, y)` acts on it, instead of selecting.
 */
function plot({ label, height, draw, describe, press }) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const tip = el("div.tip", { hidden: true, "aria-hidden": "true" });
  const host = el(
    "div.plot",
    { tabindex: "0", role: "slider", "aria-label": label, "aria-orientation": "horizontal", "aria-valuemin": "0", style: { height: `${height}px` } },
    canvas,
    tip,
  );
  let frame = null;
  let dragged = null; // where a drag began, and where it is

  function redraw() {
    const width = host.clientWidth;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const left = width < 500 ? 68 : 78;
    const field = width - left - 1;
    const scale = field / (view.to - view.from);
    frame = { left, width: field, height, x: (row) => left + (row - view.from) * scale, row: (x) => view.from + (x - left) / scale };
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    draw(context, frame);
    drawSelection(context);
    host.setAttribute("aria-valuemax", view.process.rows - 1);
    host.setAttribute("aria-valuenow", view.row);
    host.setAttribute("aria-valuetext", shortText(view.process, view.row));
  }
  function drawSelection(context) {
    const x = frame.x(view.row + 0.5);
    if (x >= frame.left && x <= frame.left + frame.width) {
      context.fillStyle = tone("text");
      context.fillRect(Math.round(x) - 0.5, 0, 1, height);
    }
    if (dragged) {
      const [a, b] = [dragged.from, dragged.to].sort((one, other) => one - other);
      context.fillStyle = tone("link");
      context.globalAlpha = 0.22;
      context.fillRect(a, 0, b - a, height);
      context.globalAlpha = 1;
    }
  }
  function place(event) {
    const box = host.getBoundingClientRect();
    const x = Math.min(frame.left + frame.width - 0.01, Math.max(frame.left, event.clientX - box.left));
    return { x, y: event.clientY - box.top, row: Math.min(view.process.rows - 1, Math.max(0, Math.floor(frame.row(x)))) };
  }
  function showTip(event) {
    const { x, y, row } = place(event);
    const lines = describe(row, y, frame);
    tip.hidden = !lines.length;
    tip.replaceChildren(...lines.map((line) => el("div", line)));
    const onRight = x > host.clientWidth / 2;
    tip.style.setProperty("left", onRight ? "auto" : `${x + 14}px`);
    tip.style.setProperty("right", onRight ? `${host.clientWidth - x + 14}px` : "auto");
  }

  host.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const { x } = place(event);
    dragged = { from: x, to: x, start: x };
  });
  host.addEventListener("pointermove", (event) => {
    if (!frame) return;
    if (dragged && event.buttons) {
      dragged.to = place(event).x;
      if (Math.abs(dragged.to - dragged.from) > 4) {
        host.setPointerCapture(event.pointerId);
        tip.hidden = true;
        redraw();
        return;
      }
    }
    showTip(event);
  });
  host.addEventListener("pointerup", (event) => {
    const was = dragged;
    dragged = null;
    if (!was) return;
    const [a, b] = [was.from, was.to].sort((one, other) => one - other);
    if (b - a > 4) zoomTo(frame.row(a), frame.row(b));
    else {
      const { y, row } = place(event);
      if (!press?.(row, y, frame)) select(row);
    }
  });
  for (const name of ["pointercancel", "pointerleave"])
    host.addEventListener(name, () => {
      tip.hidden = true;
      if (dragged && name === "pointercancel") dragged = null;
    });
  host.addEventListener("dblclick", () => zoomBy(2));
  host.addEventListener(
    "wheel",
    (event) => {
      const isMeant = event.ctrlKey || event.shiftKey || document.activeElement === host;
      if (!isMeant) return; // else the page scrolls
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
      else zoomBy(2 ** (event.deltaY / 300), frame.row(place(event).x));
    },
    { passive: false },
  );
  host.addEventListener("keydown", keys);
  onResize(host);
  onView(redraw);
  return host;
}

/** Draws everything again when the width of an element changes, other than to what it is drawn with first. */
function onResize(host) {
  let width = null;
  new ResizeObserver(() => {
    if (width !== null && width !== host.clientWidth) changed();
    width = host.clientWidth;
  }).observe(host);
}

/** Arrows select the next call, with Shift they move the view; + and - zoom, 0 shows everything, Escape leaves the wheel to the page. */
function keys(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const many = Math.max(1, Math.round((view.to - view.from) / 20));
  const acts = {
    ArrowRight: () => (event.shiftKey ? pan(0.1) : select(view.row + 1)),
    ArrowLeft: () => (event.shiftKey ? pan(-0.1) : select(view.row - 1)),
    PageDown: () => select(view.row + many),
    PageUp: () => select(view.row - many),
    Home: () => select(0),
    End: () => select(view.process.rows - 1),
    "+": () => zoomBy(0.5, view.row + 0.5),
    "=": () => zoomBy(0.5, view.row + 0.5),
    "-": () => zoomBy(2, view.row + 0.5),
    0: () => zoomTo(0, view.process.rows),
    Escape: () => event.currentTarget.blur(),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

/** Returns round steps for an axis of bytes up to `limit`: powers of two, of which at most `most` fit. */
function byteSteps(limit, most) {
  let step = 1;
  while (limit / step > most) step *= 2;
  return step;
}

/** Draws the axis of bytes from 0 to `top`, and its rules. */
function byteAxis(context, frame, top, y, text = bytes) {
  const step = byteSteps(top, Math.max(2, Math.floor(frame.height / 27)));
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let value = 0; value <= top; value += step) {
    context.fillStyle = tone("line");
    context.fillRect(frame.left, Math.round(y(value)), frame.width, 1);
    context.fillStyle = tone("muted");
    context.fillText(text(value), frame.left - 6, Math.min(frame.height - 6, Math.max(6, y(value))));
  }
}

/** Draws the numbers of calls below a field. */
function callAxis(context, frame, y) {
  const p = view.process;
  context.textBaseline = "top";
  context.fillStyle = tone("muted");
  const most = Math.max(2, Math.floor(frame.width / 70));
  const span = view.to - view.from;
  const raw = span / most;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw));
  for (let row = Math.ceil(view.from / step) * step; row < view.to; row += step) {
    const x = frame.x(row + 0.5);
    const text = count(p.calls.number[row]);
    const half = context.measureText(text).width / 2;
    context.textAlign = "center";
    if (x + half <= frame.left + frame.width && x - half >= frame.left - 20) context.fillText(text, x, y + 4);
    context.fillRect(Math.round(x), y, 1, 3);
  }
}

/** Draws a text if it fits into a width, else as much of it as fits. */
function fittedText(context, text, x, y, width) {
  if (width < 14) return;
  let shown = text;
  if (context.measureText(shown).width > width) {
    const letter = context.measureText("m").width * 0.75;
    shown = `${text.slice(0, Math.max(0, Math.floor(width / letter) - 1))}…`;
    if (shown.length < 3 || context.measureText(shown).width > width) return;
  }
  context.fillText(shown, x, y);
}

/** "call 12 ttnn.matmul, net.py:30 (block)" */
function shortText(p, row) {
  return `call ${count(p.calls.number[row])} ${p.texts[p.calls.name[row]]}, ${lineOf(p, p.stacks[p.calls.stack[row]])}`;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  tones.clear();
  changed();
});
