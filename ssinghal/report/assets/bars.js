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

/** The load of the fullest bank as a small bar in a table cell: above 100 % the case does not fit. */
function loadMeter(load) {
  if (load === null) return NONE;
  return el(
    "span",
    { class: `meter ${load > 1 ? "over" : ""}` },
    el("span.fill", { style: { width: `${Math.min(100, 100 * load).toFixed(1)}%` } }),
    el("span.figure", percent(load, 1)),
  );
}
