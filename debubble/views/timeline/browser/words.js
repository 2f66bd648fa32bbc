// Words for numbers, and nodes of the page.

export function time(us) {
  if (Math.abs(us) < 1000) return `${us.toFixed(1)} µs`;
  if (Math.abs(us) < 1e6) return `${(us / 1000).toFixed(2)} ms`;
  return `${(us / 1e6).toFixed(3)} s`;
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  const power = Math.min(Math.floor(Math.log(count) / Math.log(1024)), 3);
  return `${(count / 1024 ** power).toFixed(1)} ${["B", "KiB", "MiB", "GiB"][power]}`;
}

export function percent(share) {
  return share > 0 && share < 0.005 ? "<1%" : `${Math.round(share * 100)}%`;
}

export function count(number, [one, many]) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** Microseconds from one tick to the next, so that at most `most` of them are in `span`. */
export function tickStep(span, most) {
  const base = 10 ** Math.floor(Math.log10(span / Math.max(most, 2)));
  const steps = [1, 2, 5, 10].map((factor) => base * factor);
  return steps.find((step) => span / step <= Math.max(most, 2));
}

export function tickLabel(us, step) {
  const units = [["s", 1e6], ["ms", 1000], ["µs", 1]];
  const [unit, size] = units.find(([, size]) => Math.abs(us) >= size) ?? units[2];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(us / size).toFixed(us === 0 ? 0 : Math.min(digits, 6))} ${unit}`;
}

/** `void at::native::vectorized_kernel<4, float>(int)` is recognised by its middle. */
export function shortName(name) {
  return name.replace(/^void /, "").replace(/[<(].*$/, "").replace(/^.*::/, "") || name;
}

/** `text`, cut so that it is at most `width` pixels wide, or "" if no letters fit. */
export function fit(pen, text, width) {
  const needed = pen.measureText(text).width;
  if (needed <= width) return text;
  const letters = Math.floor((text.length * width) / needed) - 1;
  return letters >= 3 ? `${text.slice(0, letters)}…` : "";
}

/** The colour of words on a box of `colour` (#rrggbb): white or nearly black, whichever differs
 * more. */
export function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.19 ? "#ffffff" : "#10141a";
}

/** A new node at the end of `parent`. Text is never markup. */
export function add(parent, tag, attributes, text = null) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

export function addButton(parent, text, label, action) {
  // The name begins with the words that are seen, so that one can say them to click.
  const name = /^[A-Z]/.test(text) && !label.startsWith(text) ? `${text}: ${label}` : label;
  const button = add(parent, "button", { type: "button", title: label, "aria-label": name }, text);
  button.addEventListener("click", action);
  return button;
}
