// Elements made from text: nothing in this page is ever parsed as markup.

/**
 * An element. `props`: attributes by name; `on…` are listeners, `style` an object of CSS properties, null and false are left
 * out. `children`: nodes or texts; null and false are left out, arrays are taken apart.
 */
function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A link to another state of this page; see href in state.js. */
function link(changes, text, props) {
  return el("a", { href: href(changes), ...props }, text);
}

/** What stands under a heading of its own. `aside`: beside the heading. */
function panel(title, hint, ...children) {
  return el("section", { class: "panel" }, el("h2", {}, title), hint && el("p", { class: "hint" }, hint), ...children);
}
