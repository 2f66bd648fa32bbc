// The interactive timeline: events arrive as bytes, columns as `facts.layout` names them, and are
// drawn on a canvas. Nothing is loaded from anywhere.
import { Area } from "./around/area.js";
import { fillCounts, fillHeadline, fillLegend, fillShares, inWords, took } from "./around/facts.js";
import { Stepper } from "./around/stepper.js";
import { Table } from "./around/table.js";
import { Tip } from "./around/tip.js";
import { Tools } from "./around/tools.js";
import { drawBubbles } from "./drawing/bubbles.js";
import { drawAnswer, drawArea, drawMarkName, drawMatches, drawMoment, drawTarget } from "./drawing/focus.js";
import { drawGround, drawOverview } from "./drawing/ground.js";
import { drawLanes } from "./drawing/lanes.js";
import { drawQueue } from "./drawing/queue.js";
import { AXIS, GUTTER, OVERVIEW, Stage } from "./drawing/stage.js";
import { drawBeginnings, drawSteps } from "./drawing/steps.js";
import { Gestures, HELP, MARK_HELP } from "./gestures.js";
import { targetAt } from "./pointing.js";
import { Recording } from "./recording/recording.js";
import { STYLE } from "./style.js";
import { add, time } from "./words.js";

const SHORTEST_VIEW = 0.05; // microseconds
const MARGIN = 0.008; // of the axis, left and right of it
const STACKED = 3; // A recording that is more times as long as the other is drawn above it.
const LONG_LOAD = 0.15; // of the axis: a longer load is left out of the first view
const MANY = 50; // events of the device behind a load, without which the load is the subject
const LOAD_SEEN = 0.05; // of the first view: the end of a load that is left out

class TimelineView {
  constructor(model, el) {
    this.model = model;
    this.view = null; // [start, end] in microseconds, or null: everything
    this.selected = this.hovered = this.area = null;
    this.revision = 0;
    this.frame = 0;
    this.build(el);
    this.read();
    this.onChange = () => this.read();
    model.on("change:facts", this.onChange);
    this.onMark = () => this.readMark();
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
    this.areaSums = new Area(this.root, () => this.mark(null));
    this.root.addEventListener("debubble-show", ({ detail }) => this.show(...detail));
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
    this.length = Math.max(this.after.length, this.before?.length ?? 0, facts.axis ?? 0, 1);
    const all = this.before ? [this.before, this.after] : [this.after];
    this.stage.lay(lanes, this.how(), facts.palette, {
      withSteps: all.some(({ steps }) => steps.length),
      withQueue: all.some(({ queue }) => queue.peak),
    });
    this.load = this.longLoad(all);
    this.select(null);
    this.ask(this.before && this.asked?.which === "before" ? this.before : this.after);
    if (this.view) this.show(...this.view);
    else if (this.load && !this.showsAll) this.leaveLoadOut();
    this.describe(kinds, causes);
    this.root.classList.toggle("asks", this.asks);
    this.help.textContent = this.asks ? MARK_HELP : HELP;
    if (this.asks) this.help.classList.remove("unseen");
    if (this.asks) this.readMark();
    else if (this.area) this.mark(this.area);
  }

  // ---- a question that is answered by a mark

  get asks() {
    return Boolean(this.facts.asks);
  }

  get isLocked() {
    return Boolean(this.model.get("disabled"));
  }

  readMark() {
    const mark = this.model.get("mark") ?? [];
    this.mark(mark.length ? mark : null);
  }

  /** Gives the marked area to the question as its answer. */
  giveMark() {
    if (!this.asks || !this.area) return;
    this.model.set("mark", [...this.area]);
    this.model.save_changes();
  }

  /** Moves the end of the mark by a step, or its start. */
  moveMark(by, movesStart) {
    if (this.isLocked) return;
    const step = (by * this.length) / 80;
    let [start, end] = this.area ?? [0, 0];
    if (movesStart) start = Math.min(Math.max(start + step, 0), end);
    else end = Math.min(Math.max(end + step, start), this.length);
    this.mark([start, end]);
    this.sayArea();
    this.giveMark();
  }

  /** How the recording before is shown. As a ghost it would hide the other one if it is much longer. */
  how() {
    const { after, before } = this.facts;
    if (!before) return "alone";
    const [short, long] = [took(after), took(before)].sort((a, b) => a - b);
    return long > STACKED * short ? "stacked" : "ghosted";
  }

  /** Microseconds of a load that is long beside the rest of a busy recording, or 0. */
  longLoad(all) {
    const loads = all.map(({ facts }) => facts.load ?? 0);
    const isBusy = all.some((recording) => recording.deviceEvents > MANY);
    const load = Math.min(...loads);
    return isBusy && !this.facts.axis && load > LONG_LOAD * this.length ? load : 0;
  }

  leaveLoadOut() {
    this.show(this.load - LOAD_SEEN * (this.length - this.load), this.everything[1]);
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
    fillLegend(this.legend, this.before ? [this.after, this.before] : [this.after], kinds);
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

  // ---- the visible part

  get everything() {
    return [-MARGIN * this.length, (1 + MARGIN) * this.length];
  }

  get range() {
    return this.view ?? this.everything;
  }

  show(start, end) {
    const [first, last] = this.everything;
    const span = Math.min(Math.max(end - start, SHORTEST_VIEW), last - first);
    if (span >= (last - first) * 0.9999) this.view = null;
    else {
      start = Math.min(Math.max(start, first), last - span);
      this.view = [start, start + span];
    }
    this.redraw();
  }

  zoom(factor, at = null) {
    const [start, end] = this.range;
    at ??= this.selectedCentre() ?? (start + end) / 2;
    if (at < start || at > end) at = (start + end) / 2;
    this.show(at - (at - start) * factor, at + (end - at) * factor);
  }

  pan(share) {
    const [start, end] = this.range;
    this.show(start + (end - start) * share, end + (end - start) * share);
  }

  /** Shows everything; where that is shown already, leaves a long load out. */
  reset() {
    this.showsAll = this.view !== null || !this.load;
    this.view = null;
    if (!this.showsAll) this.leaveLoadOut();
    this.redraw();
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
    this.stage.see(this.range);
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
      const from = this.selectedCentre() ?? this.range[0];
      const starts = what === "events" ? asked.start : asked.bubbles.start;
      at = order.findIndex((index) => starts[index] >= from);
      if (at < 0) at = order.length;
      if (by < 0) at -= 1;
    }
    if (at < 0 || at >= order.length) return this.say(`No more ${what}.`);
    this.select({ which: asked.which, what, index: order[at] });
    this.reveal();
    this.hover(this.stepper.isOpen ? null : this.selected);
  }

  /** Shows the selected target: large enough to be seen, and not larger than the view. */
  reveal() {
    const [start, end] = this.recordingOf(this.selected).spanOf(this.selected);
    const [from, to] = this.range;
    const span = to - from;
    if (end - start > span) this.show(start - (end - start) * 0.2, end + (end - start) * 0.2);
    else if (end - start < span / 150) {
      const wide = Math.max((end - start) * 40, SHORTEST_VIEW);
      this.show((start + end - wide) / 2, (start + end + wide) / 2);
    } else if (start < from || end > to) {
      this.show((start + end - span) / 2, (start + end + span) / 2);
    }
  }

  /** Sums up the events in an area, [start, end] in microseconds; null clears it. */
  mark(area) {
    const [first, last] = [0, this.length];
    this.area = area && [Math.max(area[0], first), Math.min(area[1], last)];
    if (this.area && !this.asks) this.areaSums.show(this.area, this.before ? [this.before, this.after] : [this.after]);
    else this.areaSums.hide();
    this.redraw();
  }

  markSeen() {
    this.mark(this.range);
    this.sayArea();
  }

  sayArea() {
    if (this.asks) return this.say(`Your mark: from ${time(this.area[0])} to ${time(this.area[1])}`);
    this.say(`${this.areaSums.inWords()}. The table of sums is below the drawing.`);
  }

  letGo() {
    this.select(null);
    this.mark(null);
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
    if (!stage.begin(this.range, this.root)) return;
    const { pen } = stage;
    drawGround(stage, this.facts.after.modelled);
    pen.save();
    pen.translate(GUTTER, 0);
    pen.beginPath();
    pen.rect(0, AXIS - 6, stage.plotWidth, stage.height - OVERVIEW - AXIS + 6);
    pen.clip();
    if (this.area) drawArea(stage, this.area);
    for (const recording of [this.before, this.after]) {
      if (!recording) continue;
      const ghost = stage.isGhost(recording.which);
      pen.globalAlpha = ghost ? (stage.dark ? 0.34 : 0.26) : 1;
      drawBubbles(stage, recording, ghost);
      drawBeginnings(stage, recording);
      drawLanes(stage, recording, ghost);
      drawQueue(stage, recording);
      drawSteps(stage, recording);
      pen.globalAlpha = 1;
    }
    if (this.asks && this.area) drawMarkName(stage, this.area);
    if (this.facts.answer) drawAnswer(stage, this.facts.answer);
    if (this.search.found) drawMatches(stage, this.asked, this.search.found);
    if (this.stepper.isOpen && this.selected) drawMoment(stage, this.recordingOf(this.selected).spanOf(this.selected)[0]);
    for (const target of [this.selected, this.hovered]) {
      if (target) drawTarget(stage, this.recordingOf(target), target, target === this.selected);
    }
    pen.restore();
    drawOverview(stage, this.length, this.view !== null);
    this.tools.all.textContent = this.load && this.view === null ? "Hide the load" : "Show all";
    this.table.fill();
    const [start, end] = this.range;
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
