// A program's text, with a number for each line, its bubbles, and a light for the line that runs.
import { put } from "./nodes.js";
import { inTime } from "./sums.js";

export class Editor {
  constructor(parent, name, onInput) {
    this.root = put(parent, "section", { class: `side ${name}`, "aria-label": name });
    const head = put(this.root, "div", { class: "head" });
    put(head, "strong", {}, name[0].toUpperCase() + name.slice(1));
    this.length = put(head, "b", { class: "length" });
    this.figures = put(head, "span", { class: "figures" });
    this.box = put(this.root, "div", { class: "box" });
    this.behind = put(this.box, "div", { class: "behind-text", "aria-hidden": "true" });
    this.field = put(this.box, "textarea", {
      spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
      "aria-label": `The program ${name}`,
    });
    this.worst = put(this.root, "p", { class: "worst" });
    this.mistake = put(this.root, "p", { class: "mistake", role: "status" });
    this.field.addEventListener("input", onInput);
    this.field.addEventListener("scroll", () => this.follow());
  }

  get text() {
    return this.field.value;
  }

  set text(words) {
    this.field.value = words;
  }

  follow() {
    this.behind.style.transform = `translateY(${-this.field.scrollTop}px)`;
  }

  /** Writes a row for each line: its number, and how long the GPU idles because of it. */
  fill(sums) {
    const lines = this.text.split("\n").length;
    this.field.rows = Math.min(Math.max(lines, 7), 14);
    const idle = new Map((sums?.byLine ?? []).map(({ line, total }) => [line, total]));
    this.rows = Array.from({ length: Math.min(lines, 200) }, (_, index) => rowOf(index + 1, idle.get(index + 1)));
    this.behind.replaceChildren(...this.rows);
    this.follow();
  }

  /** Lights the lines that host and device are at. */
  light({ host, device }) {
    const [calls, work] = [new Set(host), new Set(device)];
    this.rows.forEach((row, index) => {
      row.classList.toggle("at-host", calls.has(index + 1));
      row.classList.toggle("at-device", work.has(index + 1));
    });
  }
}

function rowOf(number, idle) {
  const row = document.createElement("div");
  put(row, "span", { class: "number" }, String(number));
  if (idle > 1) put(row, "span", { class: "idle" }, `idle ${inTime(idle)}`);
  return row;
}
