// Shows one case with all its data.

function detailPanel(item, group) {
  const close = link({ case: "" }, "✕", { class: "close", "aria-label": "close this case", "data-focus": "close" });
  if (!item) {
    const lost = group.index ? lostTexts(group) : [];
    const text = `This run has no case ${state.case} in ${group.setting}.`;
    return [el("header", el("h2", lost.length ? "Not loaded" : "No such case"), close), lost.length ? lost : el("p", text)];
  }
  if (!item.bars) return [el("header", el("h2", el("span.op", item.op)), close), el("p.verdict", badge(item)), lostTexts(group)];
  return [
    el("header", el("h2", el("span.op", item.op), " ", el("span.mono", item.shape)), close),
    el("p.verdict", badge(item), " ", item.status === "fits" && !item.message ? null : el("span", item.sentence)),
    el("p.hint", `${group.setting}; numerics ${item.numerics}`),
    figures(item),
    item.oom && part("What would make it fit", remedyList(item)),
    part("In one bank", item.bars.length ? item.bars.map(bankBar) : "The record has no data on a bank."),
    part("Tensors", tensorTable(item.placed)),
    item.usage && part("Peaks of the complete call", "Per core or bank, by TTNN's graph capture.", peaks(item.usage)),
    item.message &&
      part(item.decided_by === "ttnn" ? "TTNN's message" : `Decided by ${item.decided_by}`, el("pre.message", item.message)),
    part("Sources of this call", sourcesList(item)),
    part("Run it again", command(item, group)),
    part("More", facts(item)),
  ];
}

function part(title, ...content) {
  return el(
    "section",
    el("h3", title),
    content.map((one) => (typeof one === "string" ? el("p.hint", one) : one)),
  );
}

/** Shows the deciding numbers in large print. */
function figures(item) {
  if (!item.oom) return null;
  const numbers = [
    ["requested", item.need],
    ["lacking at this buffer", item.lacks !== item.short ? item.lacks : null],
    [item.lacks !== item.short ? "short by, all tensors of the call" : "short by", item.short],
  ].filter(([, value]) => value !== null);
  const per = ["circular_buffer", "clash"].includes(item.resource) ? "per core" : "per bank";
  return (
    numbers.length > 0 &&
    el(
      "dl.figures",
      numbers.map(([name, value]) =>
        el(
          "div",
          el("dt", name),
          el("dd", bytes(value), el("span.hint", ` ${exact(value)} ${per}`)),
        ),
      ),
    )
  );
}

/** Lists remedies with their answers. */
function remedyList(item) {
  if (!item.remedies.length) return "No single change of placement applies.";
  return el(
    "ul.remedies",
    item.remedies.map(({ helps, text }) => el("li", { class: helps ? "helps" : null }, text)),
  );
}

function tensorTable(tensors) {
  if (!tensors.length) return el("p.empty", "No tensor is known.");
  return tensors.map(({ label, booked, tensor: { shape, padded, dtype, layout, memory, logical, allocated, bank, cause } }) =>
    el(
      "div.tensor",
      el("p", el("b", label), " ", el("span.mono", shapeText(shape)), el("span.hint", ` ${dtype}, ${layout}, ${memory}`)),
      el(
        "dl",
        [
          ["logical", logical],
          ["allocated", allocated],
          ["per bank", booked ?? bank],
        ].map(([name, value]) => el("div", el("dt", name), el("dd", bytes(value), el("span.hint", ` ${exact(value)}`)))),
      ),
      cause && el("p.hint", String(shape) === String(padded) ? null : ["padded to ", paddedShape(shape, padded), ": "], cause),
    ),
  );
}

/** Shows the padded shape, with padded dimensions marked. */
function paddedShape(shape, padded) {
  return el(
    "span.mono",
    "[",
    padded.map((dim, index) => [index ? "," : "", dim === shape[index] ? String(dim) : el("mark", String(dim))]),
    "]",
  );
}

function peaks(usage) {
  const rows = DATA.peaks.map((name, index) => [PEAKS[name] || name, usage[index]]).filter(([, value]) => value);
  if (!rows.length) return el("p.empty", "No peak is above 0 B.");
  return el(
    "table.legend",
    el(
      "tbody",
      rows.map(([name, value]) => el("tr", el("td", name), el("td.number", bytes(value)), el("td.number.hint", exact(value)))),
    ),
  );
}

/** Lists models that make the call, then models that only have the shape. */
function sourcesList(item) {
  const makes = item.sources.filter((source) => source.calls > 0);
  const shapes = item.sources.filter((source) => source.calls === 0);
  if (!item.sources.length) return el("p.empty", "The record names no source.");
  const entry = (source) =>
    el(
      "li",
      source.model
        ? link({ view: "models", model: modelName(source), input: source.input }, source.model)
        : `catalog ${source.catalog}`,
      source.input && el("span.hint", ` at ${source.input}`),
      source.calls > 0 && `, ${plural(source.calls, "call")}`,
      source.modules.map(([path, calls], index) => [
        index ? ", " : " ",
        el("span.mono", path),
        source.modules.length > 1 && calls > 1 && el("span.hint", ` ${count(calls)}`),
      ]),
      source.others[0] > 0 && `, and ${plural(source.others[0], "other module")} with ${plural(source.others[1], "call")}`,
      source.others[1] > 0 && !source.others[0] && `, and ${plural(source.others[1], "call")} in modules not recorded`,
      source.model && el("span.hint", ` in ${source.catalog}`),
    );
  return [
    makes.length > 0 && el("ul", makes.map(entry)),
    shapes.length > 0 && el("p.hint", "These models have the shape, but are not known to make exactly this call:"),
    shapes.length > 0 && el("ul", shapes.map(entry)),
  ];
}

/** Quotes a text as one word for a shell. */
function quoted(text) {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function command(item, group) {
  const line = lineOf(item);
  const text = `echo ${quoted(line)} | ssinghal probe --from - --board ${quoted(group.board)}`;
  const copy = (event) =>
    navigator.clipboard.writeText(text).then(() => {
      event.target.textContent = "copied";
    });
  return [
    el("pre.command", { tabindex: "0" }, text),
    navigator.clipboard ? el("button", { type: "button", onclick: copy }, "copy") : null,
  ];
}

function facts(item) {
  const rows = [
    ["id", caseId(item)],
    ["key", el("span.mono", item.key)],
    ["operator", item.operator === item.op ? null : item.operator],
    ["stage", item.stage],
    ["placement", `${item.dtype}, ${item.layout}, ${item.memory}`],
    ["by arithmetic", item.estimate],
    ["peaks", item.usage ? null : item.usage_note],
    ["left allocated", item.left ? exact(item.left) : null],
    ["took", item.seconds === null ? null : `${count(1000 * item.seconds)} ms`],
  ];
  return [
    el(
      "dl.facts",
      rows.filter(([, value]) => value).map(([name, value]) => [el("dt", name), el("dd", value)]),
    ),
    el(
      "p",
      link({ ...unfiltered(), view: "cases", shape: item.shape }, "all cases of this shape"),
      " · ",
      link({ ...unfiltered(), view: "cases", op: item.op }, `all cases of ${item.op}`),
    ),
  ];
}
