// What makes failing cases fit, in the cells of tables.

/** Names the first change that makes a case fit, and how many others do; else whether one was searched for. */
function remedyCell(item) {
  if (!item.oom) return null;
  const [first, ...more] = item.helps;
  if (!first) return el("span.hint", item.searched ? "searched, none found" : "not searched");
  return el("span.remedy", { title: item.helps.join("; ") }, first, more.length > 0 && el("span.hint", ` or ${plural(more.length, "other")}`));
}

/** Names the change that makes most of these calls fit, and for how many calls there is one. `items`: [{item, calls}]. */
function remediesCell(items) {
  const helped = items.filter(({ item }) => item.helps.length);
  const [most] = tally(helped, ({ item }) => item.helps[0], ({ calls }) => calls);
  if (!most) return el("span.hint", items.every(({ item }) => item.searched) ? "searched, none found" : "not searched");
  const all = sum(items.map(({ calls }) => calls));
  const fit = sum(helped.map(({ calls }) => calls));
  const kinds = new Set(helped.map(({ item }) => item.helps[0])).size;
  return [
    el("span.remedy", most[0]),
    el("span.hint", fit < all ? ` ${count(fit)} of ${count(all)}` : "", kinds > 1 ? ` and ${plural(kinds - 1, "other")}` : ""),
  ];
}

/** Names the modules that make a call, the first of several with the number of the others. */
function modulesCell(source) {
  const [[first] = [UNNAMED]] = source.modules;
  const more = source.modules.length - 1 + source.others[0];
  return [
    el("span.mono.module", { title: source.modules.map(([path]) => path).join("\n") || null }, first),
    more > 0 && el("span.hint", ` and ${count(more)} more`),
  ];
}
