// Panels of text: the figures of a process, its failure, findings, and the tests of a suite.

const KINDS = {
  late_free: "freed later than last used",
  resident: "resident, and not used again",
  fragmentation: "fragmentation",
  program_buffers: "program buffers decide",
  few_pages: "few pages on many banks",
  region_size: "size of a region",
};

/** Returns the panel of the most important figures. */
function overviewPanel(p, process) {
  const card = (title, value, hint, number) =>
    el("div.card", el("dt", title), el("dd", el("b", value), hint && el("span.hint", hint), number !== null && p.rows > 0 && el("span.hint", "in ", toCall(p, number), ` ${lineOfCall(p, number)}`)));
  const cards = p.used.map((memory) => {
    const { call } = p.peaks[memory];
    const [size, bank] = [peakOf(p, memory), bankAt(p, memory, rowAt(p, call))];
    return card(`${MEMORIES[memory].title} peak, ${MEMORIES[memory].per}`, bytes(size), `${size < 1024 ? "" : `${exact(size)}, `}${percent(size, bank)} of ${bytes(bank)}`, call);
  });
  if (p.fullest !== null) {
    const row = rowAt(p, p.fullest);
    const headroom = p.calls.headroom[row];
    cards.push(card("least headroom in L1", `${p.headroomAtMost ? "at most " : ""}${bytes(headroom)}`, headroom >= 1024 || headroom < 0 ? exact(headroom) : null, p.fullest));
  }
  return el(
    "section.panel",
    el("h2", "Figures"),
    el("p.hint", process.facts),
    cards.length ? el("dl.cards", cards) : el("p.empty", "No buffer was allocated on the device."),
    process.notes.map((note) => el("p.note", note)),
    !p.isWhole && el("p.note.some", `This page has ${count(p.rows)} of ${plural(p.total, "call")}: of each stretch of calls those with the most L1 and the most DRAM, and all that a peak, a failure or a finding names; and ${count(p.buffers.size.length)} of ${plural(p.allBuffers, "buffer")}, those resident then. profile.json has all of them.`),
    el("p", { class: process.isExact ? "exactness" : "exactness lack" }, el("b", { "aria-hidden": "true" }, process.isExact ? "✓ " : "✕ "), process.exactness),
  );
}

function lineOfCall(p, number) {
  const row = rowAt(p, number);
  return row < p.rows ? `${p.texts[p.calls.name[row]]}, ${lineOf(p, p.stacks[p.calls.stack[row]])}` : "";
}

function failurePanel(p) {
  if (!p.failure) return null;
  const { call, outOfMemory, sentence, message, resident, explained, tried } = p.failure;
  const held = p.used.map((memory) => {
    const own = resident.filter((i) => MEMORY_NUMBERS[p.buffers.memory[i]] === memory);
    return own.length && el("li", `${MEMORIES[memory].title}: ${both(sizeOf(p, own))} ${MEMORIES[memory].per} in ${plural(own.length, "buffer")}`);
  });
  return el(
    "section.panel.failure",
    el("h2", outOfMemory ? "Out of memory" : "The last call that raised"),
    el("p.headline", sentence),
    el("p", "in ", toCall(p, call), el("span.mono", ` ${lineOfCall(p, call)}`)),
    explained && explanation(p, explained),
    !explained && [el("p.hint", "Resident after its last allocation or program:"), el("ul", held.filter(Boolean).length ? held : el("li", "nothing"))],
    tried.length > 0 && el("div", el("h3", "Changes that were tried"), el("pre.message", tried.join("\n"))),
    el("details", el("summary", "TTNN's message"), el("pre.message", message)),
  );
}

/** What is missing, the least to free, and all that was resident of the memory that ran out, each with what it is to the call. */
function explanation(p, explained) {
  const { memory, missing, need, free, largest, programEnd, lowest, least, whyNone, wentOn } = explained;
  const { title, per } = MEMORIES[memory];
  const fact = (name, value, text = both) => value !== null && el("div", el("dt", name), el("dd", text(value)));
  const freed = new Set(least);
  const roles = [...explained.roles].sort(([one], [other]) => freed.has(other) - freed.has(one) || p.buffers.size[other] - p.buffers.size[one]);
  const row = ([i, role]) =>
    el(
      "tr",
      el("td.number", bytes(p.buffers.size[i]), p.buffers.size[i] >= 1024 && el("span.exact", exact(p.buffers.size[i]))),
      el("td.mono", p.texts[p.buffers.tensor[i]] || "–"),
      el("td.wide", toCall(p, p.buffers.made[i]), el("span.exact", makerText(p, i))),
      el("td", p.texts[role], freed.has(i) && el("span.exact.lack", "to free")),
      el("td.number", count(p.buffers.address[i])),
    );
  const heads = [["size", "number"], ["tensor"], ["made by"], ["to the failing call"], ["address", "number"]];
  return [
    el(
      "dl.facts-of",
      fact("needs", need),
      fact("free", free),
      fact("largest free block", largest),
      fact("program buffers end at", programEnd, count),
      fact("lowest tensor at", lowest, count),
      fact("short", missing),
    ),
    least.length > 0 && el("p", el("b", `The least to free before it: ${both(sizeOf(p, least))} in ${plural(least.length, "buffer")}`), ", if nothing uses them afterwards."),
    whyNone && el("p.hint", whyNone),
    wentOn > 0 && el("p.hint", `The program went on for ${plural(wentOn, "call")}.`),
    roles.length > 0 &&
      el(
        "details",
        { open: roles.length <= 12 },
        el("summary", `Resident then in ${title}: ${both(sizeOf(p, roles.map(([i]) => i)))} ${per} in ${plural(roles.length, "buffer")}`),
        el(
          "div.scroll",
          { tabindex: "0", role: "group", "aria-label": "Resident at the failure: scrolls" },
          el("table", { "aria-label": "Resident at the failure" }, el("thead", el("tr", heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), el("tbody", roles.slice(0, SHOWN).map(row))),
        ),
        roles.length > SHOWN && el("p.hint", `${plural(roles.length - SHOWN, "smaller buffer")} not shown`),
      ),
  ];
}

function sizeOf(p, places) {
  return places.reduce((sum, i) => sum + p.buffers.size[i], 0);
}

function findingsPanel(p) {
  if (!p.findings.length) return null;
  const place = (what, site) => el("div", { title: siteText(p, site, false) }, el("dt", what), el("dd.mono", siteText(p, site)));
  const change = ({ before, after }) => before !== null && after !== null && el("span.hint", `${bytes(before)} now, ${bytes(after)} then`);
  const item = (finding) =>
    el(
      "li",
      el("b", finding.title),
      el("p.saves", finding.size > 0 && el("span", `${both(finding.size)} ${MEMORIES[finding.memory].per} of ${MEMORIES[finding.memory].title}`), change(finding), el("span.badge", KINDS[finding.kind] ?? finding.kind)),
      el("p", finding.proof),
      (finding.site !== null || finding.sites.length > 0) &&
        el("dl.places", finding.site !== null && place("line", finding.site), finding.sites.map(([what, site]) => place(what, site))),
      finding.calls.length > 0 && el("p", finding.calls.slice(0, 8).map((number) => [toCall(p, number), " "]), finding.count > 8 && `and ${count(finding.count - 8)} more`),
    );
  return panel("Findings", "Each is a change that saves memory, with the arithmetic or the run that proves it.", el("ol.findings", p.findings.map(item)));
}

/** Returns the panel of named parts, such as tests. */
function partsPanel(p) {
  if (!p.spans.length) return null;
  const size = (value, sign = "") => el("td.number", value === undefined ? "–" : [sign, bytes(value), Math.abs(value) >= 1024 && el("span.exact", exact(value))]);
  const zoom = (span) => {
    const [from, to] = [rowAt(p, span.first), rowAt(p, span.end)];
    if (to <= from) return;
    zoomTo(from, to);
    select(from);
    document.getElementById("timeline").scrollIntoView({ block: "start" });
  };
  const row = (span) => {
    const left = Object.entries(span.left).filter(([, value]) => value);
    return el(
      "tr",
      el("td.mono.wide", span.end > span.first ? el("button.go", { type: "button", title: "Show it in the timeline", onclick: () => zoom(span) }, span.name) : span.name, !span.ended && el("span.exact.lack", "the process ended within it")),
      el("td.number", count(span.end - span.first)),
      p.used.map((memory) => size(span.peaks[memory]?.[0])),
      size(span.headroom?.[0], span.headroomAtMost ? "≤ " : ""),
      el("td", left.length ? left.map(([memory, value]) => el("div", `${MEMORIES[memory].title} ${value > 0 ? "+" : ""}${bytes(value)}`)) : "–"),
    );
  };
  let limit = SHOWN;
  const body = el("tbody");
  const more = el("button", { type: "button", onclick: () => { limit += MORE; draw(); } });
  const search = el("input", { type: "search", placeholder: "name", "aria-label": "Filter parts", oninput: () => { limit = SHOWN; draw(); } });
  const matches = el("span.hint", { role: "status" });
  function draw() {
    const passing = p.spans.filter((span) => span.name.toLowerCase().includes(search.value.toLowerCase()));
    body.replaceChildren(...passing.slice(0, limit).map(row));
    more.hidden = passing.length <= limit;
    more.textContent = `Show ${count(Math.min(MORE, passing.length - limit))} more`;
    matches.textContent = `${count(passing.length)} of ${plural(p.spans.length, "part")}`;
  }
  draw();
  const heads = [["Part"], ["Calls", "number"], ...p.used.map((memory) => [`${MEMORIES[memory].title} peak`, "number"]), ["Headroom", "number"], ["Left at its end"]];
  return panel(
    "Tests",
    "Named parts of the program, with their own peaks. Left: what the program holds more at the end of a part than when it began.",
    el("p.tools", search, matches),
    el("div.scroll", { tabindex: "0", role: "group", "aria-label": "Tests: scrolls" }, el("table", { "aria-label": "Tests" }, el("thead", el("tr", heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), body)),
    more,
  );
}
