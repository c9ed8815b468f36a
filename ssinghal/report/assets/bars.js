// Draws one bank: allocated bytes, free bytes and, beyond its end, bytes that do not fit.

const BEYOND_DRAWN = 1.2; // banks; the rest is cut off

function bankBar(bar) {
  const beyond = bar.beyond.reduce((sum, segment) => sum + segment.size, 0);
  const drawnBeyond = Math.min(beyond, bar.size * BEYOND_DRAWN);
  const total = bar.size + drawnBeyond;
  const share = (size) => `${((100 * size) / total).toFixed(3)}%`;
  const piece = (segment, size, extra = "") =>
    el("span", {
      class: `piece ${segment.part} ${extra}`,
      title: `${segment.label}: ${both(segment.size)}`,
      style: { width: share(size) },
    });
  const inside = bar.segments.map((segment) => piece(segment, segment.size));
  const outside = bar.beyond.map((segment) =>
    piece(segment, (segment.size * drawnBeyond) / beyond, drawnBeyond < beyond ? "outside cut" : "outside"),
  );
  const end = beyond ? el("span.end", { style: { left: share(bar.size) } }) : null;
  return el(
    "figure.bank",
    el("figcaption", el("b", `${bar.memory} `), caption(bar, beyond)),
    el("div.track", { role: "img", "aria-label": description(bar, beyond) }, inside, outside, end),
    el(
      "table.legend",
      el(
        "tbody",
        [...bar.segments.map((s) => [s, false]), ...bar.beyond.map((s) => [s, true])].map(([segment, out]) =>
          legendRow(segment, out, bar),
        ),
      ),
    ),
    bar.notes.map((note) => el("p.hint", note)),
  );
}

function caption(bar, beyond) {
  const of = bar.memory === "L1" ? `of one core: ${both(bar.size)}, its bank ${bytes(bar.bank)}` : `bank: ${both(bar.size)}`;
  return beyond ? [`${of}; `, el("strong.lack", `${both(beyond)} do not fit`)] : of;
}

function description(bar, beyond) {
  const parts = bar.segments.map((segment) => `${segment.label} ${bytes(segment.size)}`).join(", ");
  return `${bar.memory} bank: ${parts}${beyond ? `; beyond its end ${bytes(beyond)}` : ""}`;
}

function legendRow(segment, out, bar) {
  return el(
    "tr",
    { class: out ? "lack" : null },
    el("td", el("span", { class: `swatch ${segment.part} ${out ? "outside" : ""}`, "aria-hidden": "true" }), segment.label),
    el("td.number", exact(segment.size)),
    el("td.number", percent(segment.size, bar.size)),
  );
}

const METER_BANKS = 4; // at most, to the right end of a meter; a longer bar is cut there

/** Returns how many banks the meters of these cases show: the same for all of them, so that bars can be compared. */
function scaleOf(items) {
  if (!SCALES.has(items)) {
    const most = items.reduce((highest, item) => Math.max(highest, item.load ?? 0), 1);
    SCALES.set(items, Math.min(most, METER_BANKS));
  }
  return SCALES.get(items);
}
const SCALES = new WeakMap();

/** The load of the fullest bank as a small bar in a table cell: above 100 %, the line across it, the case does not fit. */
function loadMeter(load, scale) {
  if (load === null) return NONE;
  const width = (banks) => `${Math.min(100, (100 * banks) / scale).toFixed(1)}%`;
  return el(
    "span",
    { class: `meter ${load > 1 ? "over" : ""} ${load > scale ? "cut" : ""}` },
    el("span.gauge", el("span.fill", { style: { width: width(load) } }), scale > 1 && el("span.limit", { style: { left: width(1) } })),
    el("span.figure", percent(load, 1)),
  );
}
