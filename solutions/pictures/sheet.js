// The sheet of solutions/pictures/sheet.py for the site: marks instead of matplotlib, drawn as SVG.

export const INK = "#1f2933", FAINT = "#55606d", GROUND = "#ffffff", BAR = 22;
const SEQUENCE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#b5548a", "#4b3b8f"];
const DIGIT = 9, DARK_INK = "#10141a", LIGHT = 0.19;

export const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
export const colourOf = (sequence) => SEQUENCE_COLOURS[sequence % SEQUENCE_COLOURS.length];

/** Marks in CSS pixels from the top left corner, as Sheet.marks has them in Python. */
export class Sheet {
  constructor(width, height, words) {
    Object.assign(this, { width, height, words, marks: [] });
  }

  label(x, y, words, { align = "center", colour = INK, size = 12, bold = false } = {}) {
    this.marks.push(["label", x, y, String(words), align, colour, size, bold]);
  }

  line(from, to, colour, { width = 1, dashed = false } = {}) {
    this.marks.push(["line", ...from, ...to, colour, width, dashed]);
  }

  /** Draws a row of boxes, {left, width, colour, opacity, word}. */
  boxes(top, all) {
    for (const { left, width, colour, opacity = 1 } of all) this.marks.push(["box", left, top, width, colour, opacity]);
    for (const { left, width, colour, word = "" } of all) {
      if (word === "" || width <= DIGIT * String(word).length) continue;
      this.label(left + width / 2, top + 15, word, { colour: SEQUENCE_COLOURS.includes(colour) ? inkOn(colour) : FAINT });
    }
  }

  get svg() {
    const { width, height } = this;
    const open = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="DejaVu Sans, sans-serif">`;
    return `${open}<rect width="100%" height="100%" fill="${GROUND}"/>${this.marks.map(asSvg).join("")}</svg>`;
  }
}

function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < LIGHT ? GROUND : DARK_INK;
}

function asSvg([what, ...mark]) {
  return { label: labelAsSvg, line: lineAsSvg, box: boxAsSvg }[what](...mark);
}

/** The last of several lines has its baseline at y. */
function labelAsSvg(x, y, words, align, colour, size, bold) {
  const anchor = { left: "start", center: "middle", right: "end" }[align];
  const lines = words.split("\n");
  return lines.map((line, index) => {
    const at = y - (lines.length - 1 - index) * size * 1.2;
    return `<text x="${x}" y="${at}" text-anchor="${anchor}" fill="${colour}" font-size="${size}"${bold ? ' font-weight="bold"' : ""}>${line}</text>`;
  }).join("");
}

function lineAsSvg(x1, y1, x2, y2, colour, width, dashed) {
  return `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${colour}" stroke-width="${width}"${dashed ? ' stroke-dasharray="3.7 1.6"' : ""}/>`;
}

function boxAsSvg(left, top, width, colour, opacity) {
  return `<rect x="${left}" y="${top}" width="${width}" height="${BAR}" fill="${colour}" fill-opacity="${opacity}" stroke="${GROUND}" stroke-width="1.5"/>`;
}
