// Host, queue and device at one moment, as boxes that fill and empty, and the source lines around
// it, of which the line of the moment is lit.
import { momentOf } from "../recording/moment.js";
import { stepAt } from "../recording/steps.js";
import { add, addButton, time } from "../words.js";

const MOST_SHOWN = 24;
const LINES_AROUND = 2;
const CALLS = { launch: "launches", graph_launch: "launches a graph:", sync: "waits:", alloc: "allocates:", compile: "compiles", python: "runs your Python" };
const IDLES = ["idles: it waits for the host", "waits for a copy", "goes to its next kernel", "idles"];

export class Stepper {
  constructor(parent, view) {
    this.view = view;
    this.box = add(parent, "div", { class: "stepper", hidden: "", role: "group" });
    this.box.setAttribute("aria-label", "Host, queue and device at one moment");
    const head = add(this.box, "div", { class: "step-head" });
    addButton(head, "◀ Back", "Previous event (arrow left)", () => view.step("events", -1));
    addButton(head, "Next ▶", "Next event (arrow right)", () => view.step("events", 1));
    this.where = add(head, "span", {});
    const panels = add(this.box, "div", { class: "panels" });
    this.parts = Object.fromEntries(["host", "queue", "device"].map((name) => [name, addPanel(panels, name)]));
    this.code = add(this.box, "div", { class: "lines" });
  }

  get isOpen() {
    return !this.box.hidden;
  }

  open(isOpen) {
    this.box.hidden = !isOpen;
  }

  /** Shows the moment at which an event of `recording` begins. */
  show(recording, index) {
    const at = recording.start[index];
    const doing = momentOf(recording, at);
    const place = recording.order.indexOf(index) + 1;
    const step = stepAt(recording.steps, at);
    const which = this.view.before ? `${recording.which}: ` : "";
    this.where.textContent =
      `${which}event ${place.toLocaleString("en")} of ${recording.start.length.toLocaleString("en")}, ` +
      `at ${time(at)}${step ? `, step: ${step.name}` : ""}`;
    this.tell("host", hostWords(recording, doing.host), hostState(recording, doing.host));
    const work = doing.running.map((one) => recording.workOf(one));
    const idle = doing.bubble >= 0 ? IDLES[recording.bubbles.cause[doing.bubble]] : null;
    this.tell("device", [idle, ...work].filter(Boolean).join("; ") || "idles", idle || !work.length ? "waits" : "busy");
    this.fillQueue(recording, doing);
    this.light(recording, recording.source[index]);
  }

  tell(name, words, state) {
    this.parts[name].words.textContent = words;
    this.parts[name].box.dataset.state = state;
  }

  fillQueue(recording, { queued, more }) {
    const { words, box } = this.parts.queue;
    const count = queued.length + more;
    box.dataset.state = count ? "busy" : "empty";
    box.dataset.count = count;
    words.replaceChildren();
    for (const index of queued.slice(0, MOST_SHOWN)) {
      add(words, "i", { style: `background: var(--kind-${recording.kind[index]})`, title: recording.workOf(index) });
    }
    add(words, "span", {}, count ? `${count.toLocaleString("en")} in the queue` : "empty");
  }

  /** Shows the recording's source lines around the line of the event, which is lit. */
  light(recording, source) {
    this.code.replaceChildren();
    const lines = recording.linesInOrder;
    const at = lines.indexOf(source);
    if (at < 0) return add(this.code, "div", { class: "line" }, "No line is known for this event.");
    const first = Math.max(Math.min(at - LINES_AROUND, lines.length - 2 * LINES_AROUND - 1), 0);
    for (const number of lines.slice(first, first + 2 * LINES_AROUND + 1)) {
      const [place, text] = recording.facts.sources[number];
      const row = add(this.code, "div", { class: number === source ? "line lit" : "line" });
      if (number === source) row.setAttribute("aria-current", "true");
      add(row, "span", { class: "place" }, place);
      add(row, "code", {}, text);
    }
  }
}

function addPanel(parent, name) {
  const box = add(parent, "div", { class: "panel" });
  add(box, "b", {}, name);
  return { box, words: add(box, "span", {}) };
}

function hostWords(recording, index) {
  if (index < 0) return "runs Python between its calls";
  const { key } = recording.kinds[recording.kind[index]];
  const name = key === "python" ? "" : recording.facts.names[recording.name[index]];
  return `${CALLS[key] ?? key} ${name}`.trim();
}

function hostState(recording, index) {
  return index >= 0 && recording.kinds[recording.kind[index]].key === "sync" ? "waits" : "busy";
}
