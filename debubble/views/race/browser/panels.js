// The picture of host, queue and device at one moment, one row for each program.
import { put } from "./nodes.js";

const MOST_SHOWN = 14;

export class Panels {
  constructor(parent, name, figure) {
    this.figure = figure;
    this.root = put(parent, "div", { class: "panels", role: "group", "aria-label": `${name} at this moment` });
    put(this.root, "span", { class: "whose" }, name);
    this.host = this.panel("host");
    this.queue = this.panel("queue");
    this.device = this.panel("GPU");
  }

  panel(name) {
    const box = put(this.root, "div", { class: "panel" });
    put(box, "span", { class: "name" }, name);
    return { box, words: put(box, "span", { class: "doing" }) };
  }

  show({ host, queue, device }) {
    for (const [panel, doing] of [[this.host, host], [this.device, device]]) {
      panel.words.textContent = doing.words + linesOf(doing.lines);
      panel.box.dataset.state = doing.state;
    }
    const { words, box } = this.queue;
    box.dataset.state = queue.length ? "busy" : "done";
    words.replaceChildren();
    for (const event of queue.slice(0, MOST_SHOWN)) {
      put(words, "i", { style: `background:${this.figure.colourOf(event)}` });
    }
    put(words, "span", {}, queue.length ? ` ${queue.length}` : "empty");
  }
}

function linesOf(lines) {
  const all = [...new Set(lines)];
  return all.length ? `, line ${all.join(" and ")}` : "";
}
