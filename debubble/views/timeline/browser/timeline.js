// The interactive timeline: events arrive as bytes, columns as `facts.layout` names them, and are
// drawn on a canvas. Nothing is loaded from anywhere.
import { fillCounts, fillHeadline, fillLegend, fillShares, inWords } from "./around/facts.js";
import { Stepper } from "./around/stepper.js";
import { Table } from "./around/table.js";
import { Tip } from "./around/tip.js";
import { Tools } from "./around/tools.js";
import { drawAll } from "./drawing/all.js";
import { GUTTER, Stage } from "./drawing/stage.js";
import { Gestures, HELP, MARK_HELP } from "./gestures.js";
import { Mark } from "./mark.js";
import { targetAt } from "./pointing.js";
import { Recording } from "./recording/recording.js";
import { arrangement, longLoad } from "./recording/together.js";
import { Seen } from "./seen.js";
import { STYLE } from "./style.js";
import { add } from "./words.js";

class TimelineView {
  constructor(model, el) {
    this.model = model;
    this.selected = this.hovered = null;
    this.seen = new Seen(this);
    this.revision = 0;
    this.frame = 0;
    this.build(el);
    this.read();
    this.onChange = () => this.read();
    model.on("change:facts", this.onChange);
    this.onMark = () => this.mark.read();
    model.on("change:mark", this.onMark);
    this.resizes = new ResizeObserver(() => this.redraw());
    this.resizes.observe(this.canvas.parentElement);
    this.themes = new MutationObserver(() => this.redraw());
    for (const node of [document.documentElement, document.body]) {
      this.themes.observe(node, { attributes: true });
    }
  }

  remove() {
    this.model.off("change:facts", this.onChange);
    this.model.off("change:mark", this.onMark);
    this.tip.remove();
    this.resizes.disconnect();
    this.themes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  // ---- the page around the canvas

  build(el) {
    const id = `debubble-timeline-${Math.random().toString(36).slice(2)}`;
    this.root = add(el, "div", { class: "debubble-timeline", role: "group" });
    add(this.root, "style", {}, STYLE);
    const head = add(this.root, "div", { class: "head" });
    this.badge = add(head, "span", { class: "badge" });
    this.tools = new Tools(head, this, `${id}-table`);
    this.search = this.tools.search;
    this.headline = add(this.root, "div", { class: "headline" });
    this.counts = add(this.root, "div", { class: "counts" });
    const stage = add(this.root, "div", { class: "stage" });
    this.canvas = add(stage, "canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "timeline",
      "aria-describedby": `${id}-help`,
    });
    this.stage = new Stage(this.canvas);
    this.tip = new Tip(stage, this.canvas, () => this.hover(null));
    this.stepper = new Stepper(this.root, this);
    this.legend = add(this.root, "div", { class: "legend" });
    this.shares = add(this.root, "div", { class: "shares" });
    this.help = add(this.root, "p", { class: "help unseen", id: `${id}-help` }, HELP);
    this.live = add(this.root, "p", { class: "unseen", "aria-live": "polite", role: "status" });
    this.mark = new Mark(this);
    this.root.addEventListener("debubble-show", ({ detail }) => this.seen.show(...detail));
    this.table = new Table(this.root, `${id}-table`, this);
    this.gestures = new Gestures(this.canvas, this);
  }

  toggleTable() {
    this.tools.table.setAttribute("aria-pressed", String(this.table.toggle()));
    this.redraw();
  }

  toggleHelp() {
    this.help.classList.toggle("unseen");
    this.tools.help.setAttribute("aria-expanded", String(!this.help.classList.contains("unseen")));
  }

  // ---- data

  read() {
    const facts = (this.facts = this.model.get("facts"));
    const { kinds, causes } = facts.palette;
    const lanes = [...facts.after.lanes];
    for (const lane of facts.before?.lanes ?? []) if (!lanes.includes(lane)) lanes.push(lane);
    this.after = new Recording(this.model, facts, "after", lanes);
    this.before = facts.before ? new Recording(this.model, facts, "before", lanes) : null;
    const all = this.recordings;
    this.stage.lay(lanes, arrangement(facts), facts.palette, {
      withSteps: all.some(({ steps }) => steps.length),
      withQueue: all.some(({ queue }) => queue.peak),
    });
    this.select(null);
    this.ask(this.before && this.asked?.which === "before" ? this.before : this.after);
    const length = Math.max(...all.map((one) => one.length), facts.axis ?? 0, 1);
    this.seen.read(length, facts.axis ? 0 : longLoad(all, length));
    this.describe(kinds, causes);
    const { asks } = this.mark;
    this.root.classList.toggle("asks", asks);
    this.help.textContent = asks ? MARK_HELP : HELP;
    if (asks) this.help.classList.remove("unseen");
    if (asks) this.mark.read();
    else if (this.mark.area) this.mark.set(this.mark.area);
  }

  get recordings() {
    return this.before ? [this.before, this.after] : [this.after];
  }

  describe(kinds, causes) {
    const { facts } = this;
    this.badge.textContent = facts.after.label;
    this.badge.classList.toggle("modelled", facts.after.modelled);
    this.badge.title = facts.after.modelled
      ? "These times come from a cost model, not from a clock"
      : "These times were measured";
    this.root.setAttribute("aria-label", `Timeline, ${facts.after.label}`);
    this.canvas.setAttribute("aria-label", inWords(facts));
    fillHeadline(this.headline, facts);
    fillCounts(this.counts, facts);
    fillLegend(this.legend, this.recordings.reverse(), kinds);
    fillShares(this.shares, facts, causes);
  }

  /** Redraws, and marks the table as outdated. */
  changed() {
    this.revision += 1;
    this.redraw();
  }

  // ---- the recording that keys, search and table use

  ask(recording) {
    this.asked = recording;
    this.tools.say(this.before ? recording.which : null);
    this.search.look();
  }

  askOther() {
    if (!this.before) return this.say("There is no earlier recording.");
    this.select(null);
    this.ask(this.asked === this.before ? this.after : this.before);
    this.say(`Keys, search and table now use ${this.asked.which}.`);
  }

  recordingOf(target) {
    return target.which === "before" ? this.before : this.after;
  }

  // ---- what is pointed at

  find(x, y) {
    return targetAt(this, x, y);
  }

  hover(target, pointer = null) {
    const key = (one) => one && `${one.which} ${one.what} ${one.index}`;
    const same = key(this.hovered) === key(target);
    this.hovered = target;
    if (!same) this.redraw();
    if (!target) return this.tip.hide();
    const recording = this.recordingOf(target);
    const [start, end] = recording.spanOf(target);
    this.stage.see(this.seen.range);
    const x = pointer ? pointer.offsetX : GUTTER + this.stage.x((start + end) / 2);
    const y = pointer ? pointer.offsetY : this.stage.height - 18;
    this.tip.show(recording.lines(target), x, y);
  }

  select(target) {
    this.selected = target;
    if (target) this.say(this.recordingOf(target).lines(target).join(", ").replace("› ", ""));
    else this.hover(null);
    if (target?.what === "events" && this.stepper.isOpen) {
      this.stepper.show(this.recordingOf(target), target.index);
    }
    this.redraw();
  }

  toggleStepper() {
    this.stepper.open(!this.stepper.isOpen);
    this.tools.stepper.setAttribute("aria-pressed", String(this.stepper.isOpen));
    if (!this.stepper.isOpen) return this.redraw();
    if (this.selected?.what === "events") this.select(this.selected);
    else this.step("events", 1);
  }

  /** Goes from event to event, and shows what host, queue and device do at its beginning. */
  stepThrough(by) {
    if (!this.stepper.isOpen) this.toggleStepper();
    else this.step("events", by);
  }

  selectedCentre() {
    if (!this.selected) return null;
    const [start, end] = this.recordingOf(this.selected).spanOf(this.selected);
    return (start + end) / 2;
  }

  /** Goes to the next event or bubble, or the next match, from the selected target or else from
   * the left edge. */
  step(what, by) {
    const { asked } = this;
    const all = what === "events" ? asked.order : asked.bubbleOrder;
    const found = what === "events" ? this.search.found?.events : null;
    const order = found ? all.filter((index) => found.has(index)) : all;
    if (!order.length) return this.say(`No ${what}.`);
    let at;
    if (this.selected?.what === what) at = order.indexOf(this.selected.index) + by;
    else {
      const from = this.selectedCentre() ?? this.seen.range[0];
      const starts = what === "events" ? asked.start : asked.bubbles.start;
      at = order.findIndex((index) => starts[index] >= from);
      if (at < 0) at = order.length;
      if (by < 0) at -= 1;
    }
    if (at < 0 || at >= order.length) return this.say(`No more ${what}.`);
    this.select({ which: asked.which, what, index: order[at] });
    this.seen.reveal(...asked.spanOf(this.selected));
    this.hover(this.stepper.isOpen ? null : this.selected);
  }

  letGo() {
    this.select(null);
    this.mark.set(null);
  }

  say(words) {
    this.live.textContent = words;
  }

  // ---- drawing

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const began = performance.now();
    const { stage } = this;
    if (!stage.begin(this.seen.range, this.root)) return;
    drawAll(this);
    this.tools.all.textContent = this.seen.load && this.seen.isAll ? "Hide the load" : "Show all";
    this.table.fill();
    const [start, end] = this.seen.range;
    const { selected } = this;
    Object.assign(this.root.dataset, {
      start: start.toFixed(3),
      end: end.toFixed(3),
      selected: selected ? `${selected.which} ${selected.what} ${selected.index}` : "",
      marks: stage.marks,
      drawMs: (performance.now() - began).toFixed(2),
    });
  }
}

export default {
  render({ model, el }) {
    const view = new TimelineView(model, el);
    return () => view.remove();
  },
};
