// A program's text, with a number for each line, its bubbles, and a light for the line that runs.
import { mainCause } from "./causes.js";
import { put } from "./nodes.js";
import { counted, inTime, worstLine } from "./sums.js";

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
    const below = put(this.root, "div", { class: "below" });
    this.worst = put(below, "p", { class: "worst" });
    this.mistake = put(below, "p", { class: "mistake", role: "status" });
    this.field.addEventListener("input", onInput);
    this.field.addEventListener("scroll", () => this.follow());
  }

  get text() {
    return this.field.value;
  }

  set text(words) {
    this.field.value = words;
  }

  get isBroken() {
    return this.mistake.textContent !== "";
  }

  /** Says what is wrong with the text: "" if nothing is. */
  showMistake(words) {
    this.mistake.textContent = words;
    this.root.classList.toggle("broken", this.isBroken);
  }

  /** Writes the figures of a run: null if there was none. `withLines` says too what each line costs. */
  describe(sums, { withLines }) {
    this.length.textContent = sums ? inTime(sums.length) : "";
    this.figures.textContent = sums ? figuresOf(sums) : "";
    const shown = this.isBroken || !withLines ? null : sums;
    this.worst.replaceChildren();
    if (shown) this.sayWorst(worstLine(shown, this.text));
    else if (!withLines) this.worst.textContent = "What each line costs appears here once you have found the line.";
    this.fill(shown);
  }

  sayWorst(worst) {
    if (typeof worst === "string") return void (this.worst.textContent = worst);
    this.worst.append(`Line ${worst.line}, `);
    put(this.worst, "code", {}, worst.words);
    this.worst.append(`,${worst.rest}`);
  }

  follow() {
    this.behind.style.transform = `translateY(${-this.field.scrollTop}px)`;
  }

  /** Writes a row for each line: its number, and how long the GPU idles because of it. */
  fill(sums) {
    const lines = this.text.split("\n").length;
    this.field.rows = Math.min(Math.max(lines, 7), 14);
    const idle = new Map((sums?.byLine ?? []).map((sum) => [sum.line, sum]));
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

function figuresOf({ idle, launches, waits }) {
  return `GPU idle ${Math.round(100 * idle)}%, ${counted(launches, "launch", "launches")}, ${counted(waits, "wait")}`;
}

function rowOf(number, idle) {
  const row = document.createElement("div");
  put(row, "span", { class: "number" }, String(number));
  if (!idle || idle.total <= 1) return row;
  const badge = put(row, "span", { class: "idle" }, `idle ${inTime(idle.total)}`);
  put(badge, "span", { class: "why" }, mainCause(idle).badge);
  return row;
}
