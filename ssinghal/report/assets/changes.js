// What changed since the run before, and errors.

function changesPanel(group) {
  const changes = DATA.changes;
  if (!changes) return el("p.hint.quiet", "What changed: no earlier run to compare with.");
  if (!changes.compared.includes(group.setting))
    return el("p.hint.quiet", `What changed since ${changes.before}: that run has no records of ${group.setting}.`);
  const here = changes.found.filter(([, setting]) => setting === group.setting);
  const kinds = changes.kinds.filter(([kind]) => here.some(([one]) => one === kind));
  if (!kinds.length && !changes.notes.length)
    return el("p.hint.quiet", `What changed since ${changes.before}: no verdict and no size.`);
  return panel(
    "What changed",
    `Since ${changes.before}, regardless of the filters.`,
    changes.notes.map((note) => el("p.note", note)),
    kinds.length
      ? kinds.map(([kind, title, worse]) =>
          changesOf(
            kind,
            title,
            worse,
            here.filter(([one]) => one === kind),
            moreChanges(kind, group),
          ),
        )
      : el("p.empty", "No verdict and no size has changed."),
  );
}

/** Returns how many changes of a kind the page of a large run leaves out. */
function moreChanges(kind, group) {
  return sum((DATA.changes.more || []).filter(([one, setting]) => one === kind && setting === group.setting).map(([, , more]) => more));
}

function changesOf(kind, title, worse, changes, more) {
  const all = changes.length + more;
  return el(
    "details",
    { class: `changes ${worse ? "bad" : ""}`, open: worse },
    el("summary", el("b", count(all)), ` ${kind}: ${title}`),
    el(
      "ul.rows.tall",
      changes
        .slice(0, PAGE_ROWS)
        .map(([, , op, key, id, before, after, figures]) =>
          el(
            "li",
            link({ case: `${op}:${key}` }, [el("b", op), " ", el("span.mono", id)]),
            el("span.hint", figures || [before || "no record", " → ", after || "no record"]),
          ),
        ),
    ),
    all > PAGE_ROWS && el("p.hint", `and ${count(all - PAGE_ROWS)} more: ssinghal compare lists all`),
  );
}

/** Lists errors, crashes, timeouts, mismatches, and cases that left memory allocated. */
function faultsPanel(shown) {
  const faults = shown.filter((item) => item.fault || item.left);
  if (!faults.length) return null;
  return panel(
    "Errors",
    "Neither fits nor out of memory, or memory was left allocated.",
    el(
      "ul.rows.tall",
      faults
        .slice(0, PAGE_ROWS)
        .map((item) =>
          el(
            "li",
            caseLink(item, [badge(item), " ", el("b", item.op), " ", el("span.mono", item.shape)]),
            el("span.hint", item.left ? `left ${exact(item.left)} allocated` : item.sentence),
          ),
        ),
    ),
    faults.length > PAGE_ROWS && el("p.hint", `and ${count(faults.length - PAGE_ROWS)} more`),
  );
}
