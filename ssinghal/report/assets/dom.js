// Builds elements from text: nothing on this page is ever parsed as markup.

/**
 * Returns an element of `kind`, a tag with classes: "p.hint". If the first of `parts` is an object, it has attributes by name:
 * `on…` are listeners, `style` is an object of CSS properties, null and false are skipped. All others are children, nodes or
 * texts: null and false are skipped, arrays are flattened.
 */
function el(kind, ...parts) {
  const [tag, ...classes] = kind.split(".");
  const node = document.createElement(tag);
  node.classList.add(...classes);
  const [first] = parts;
  const hasProps = first !== null && typeof first === "object" && !Array.isArray(first) && !(first instanceof Node);
  const [props, children] = hasProps ? [first, parts.slice(1)] : [{}, parts];
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === "class") node.classList.add(...value.split(" ").filter(Boolean));
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Returns an id in pieces between which a line may break: after + / and - that do not belong to a number, and nowhere else. */
function chunks(id) {
  return id
    .split(/(?<=[\w\])](?<!\d[eE])[+/-])(?=.)/)
    .map((piece, index) => [index ? el("wbr") : null, el("span.chunk", piece)]);
}

/** Returns a link to another state of this page; see href in state.js. */
function link(changes, text, props) {
  return el("a", { href: href(changes), ...props }, text);
}

/** Returns a section with a heading; `hint`, a sentence below it, may be null. */
function panel(title, hint, ...children) {
  return el("section.panel", el("h2", title), hint && el("p.hint", hint), children);
}
