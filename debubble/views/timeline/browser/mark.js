// The marked stretch of time: its sums, or the answer to a question.
import { Area } from "./around/area.js";
import { time } from "./words.js";

const STEPS = 80; // of a key from one end of the axis to the other

export class Mark {
  constructor(view) {
    this.view = view;
    this.area = null; // [start, end] in microseconds
    this.sums = new Area(view.root, () => this.set(null));
  }

  /** True if the mark answers a question. */
  get asks() {
    return Boolean(this.view.facts.asks);
  }

  get isLocked() {
    return Boolean(this.view.model.get("disabled"));
  }

  /** Marks an area and sums up its events; null clears the mark. */
  set(area) {
    const { recordings, seen } = this.view;
    this.area = area && [Math.max(area[0], 0), Math.min(area[1], seen.length)];
    if (this.area && !this.asks) this.sums.show(this.area, recordings);
    else this.sums.hide();
    this.view.redraw();
  }

  /** Shows the answer that the question has. */
  read() {
    const mark = this.view.model.get("mark") ?? [];
    this.set(mark.length ? mark : null);
  }

  /** Gives the marked area to the question as its answer. */
  give() {
    if (!this.asks || !this.area) return;
    const { model } = this.view;
    model.set("mark", [...this.area]);
    model.save_changes();
  }

  /** Moves the end of the mark by a step, or its start. */
  move(by, movesStart) {
    if (this.isLocked) return;
    const { length } = this.view.seen;
    const step = (by * length) / STEPS;
    let [start, end] = this.area ?? [0, 0];
    if (movesStart) start = Math.min(Math.max(start + step, 0), end);
    else end = Math.min(Math.max(end + step, start), length);
    this.set([start, end]);
    this.say();
    this.give();
  }

  markSeen() {
    this.set(this.view.seen.range);
    this.say();
  }

  say() {
    const { area, view } = this;
    if (this.asks) return view.say(`Your mark: from ${time(area[0])} to ${time(area[1])}`);
    view.say(`${this.sums.inWords()}. The table of sums is below the drawing.`);
  }
}
