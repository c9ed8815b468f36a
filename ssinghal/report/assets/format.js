// Formats numbers, with binary units.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const NONE = "–";

/** 34078720 → "32.5 MiB"; no number → "–". */
function bytes(size) {
  if (size === null || size === undefined) return NONE;
  let unit = 0;
  let value = size;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return unit === 0 ? `${count(size)} B` : `${count(Number(value.toPrecision(4)))} ${UNITS[unit]}`;
}

/** 34078720 → "34,078,720 B". Numbers above 2^53 are rounded by JavaScript and marked "about". */
function exact(size) {
  if (size === null || size === undefined) return "not known";
  return `${Number.isSafeInteger(size) ? "" : "about "}${count(size)} B`;
}

/** Shows the rounded size, with the exact one as its title. */
function size(value) {
  return el("span.size", { title: value === null || value === undefined ? null : exact(value) }, bytes(value));
}

/** "32.5 MiB (34,078,720 B)" */
function both(value) {
  return value === null || value === undefined || value < 1024 ? bytes(value) : `${bytes(value)} (${exact(value)})`;
}

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });

function count(value) {
  return GROUPED.format(value);
}

/** 0.1532 → "15.3 %"; rounds neither a non-zero share to 0 nor an incomplete one to 100. */
function percent(part, whole) {
  if (!whole) return NONE;
  const value = (100 * part) / whole;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value < 100 && value > 99.9) return "> 99.9 %";
  return `${count(Number(value.toFixed(value < 1000 ? 1 : 0)))} %`;
}

/** 1.3061 → "1.306×" */
function times(factor) {
  return factor === null ? NONE : `${count(Number(factor.toPrecision(4)))}×`;
}

function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

function shapeText(shape) {
  return `[${shape.join(",")}]`;
}
