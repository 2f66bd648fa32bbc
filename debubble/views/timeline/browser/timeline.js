// The interactive timeline: events arrive as bytes, columns as `facts.layout` names them, and are
// drawn on a canvas. Nothing is loaded from anywhere.
import { Area } from "./around/area.js";
import { fillCounts, fillHeadline, fillLegend, fillShares, inWords, took } from "./around/facts.js";
import { Search } from "./around/search.js";
import { Table } from "./around/table.js";
import { Tip } from "./around/tip.js";
import { drawBubbles } from "./drawing/bubbles.js";
import { drawArea, drawMatches, drawTarget } from "./drawing/focus.js";
import { drawGround, drawOverview } from "./drawing/ground.js";
import { drawLanes } from "./drawing/lanes.js";
import { AXIS, GUTTER, OVERVIEW, Stage } from "./drawing/stage.js";
import { Gestures, HELP } from "./gestures.js";
import { Recording } from "./recording/recording.js";
import { STYLE } from "./style.js";
import { add, addButton } from "./words.js";

const SHORTEST_VIEW = 0.05; // microseconds
const MARGIN = 0.008; // of the axis, left and right of it
const STACKED = 3; // A recording that is more times as long as the other is drawn above it.

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
    this.resizes = new ResizeObserver(() => this.redraw());
    this.resizes.observe(this.canvas.parentElement);
    this.themes = new MutationObserver(() => this.redraw());
    for (const node of [document.documentElement, document.body]) {
      this.themes.observe(node, { attributes: true });
    }
  }

  remove() {
    this.model.off("change:facts", this.onChange);
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
    const tools = add(head, "span", { class: "tools", role: "group", "aria-label": "View" });
    this.search = new Search(tools, this);
    addButton(tools, "−", "Zoom out", () => this.zoom(1 / 0.6));
    addButton(tools, "+", "Zoom in", () => this.zoom(0.6));
    addButton(tools, "All", "Show everything", () => this.reset());
    addButton(tools, "Sum view", "Mark the visible part and sum it up", () => this.markSeen());
    this.otherButton = addButton(tools, "Search before", "Use the recording before", () => this.askOther());
    this.tableButton = addButton(tools, "Table", "Show the events as a table", () => {
      this.tableButton.setAttribute("aria-pressed", String(this.table.toggle()));
      this.redraw();
    });
    this.tableButton.setAttribute("aria-pressed", "false");
    this.tableButton.setAttribute("aria-controls", `${id}-table`);
    const keys = addButton(tools, "?", "How to use it", () => {
      help.classList.toggle("unseen");
      keys.setAttribute("aria-expanded", String(!help.classList.contains("unseen")));
    });
    keys.setAttribute("aria-expanded", "false");
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
    this.legend = add(this.root, "div", { class: "legend" });
    this.shares = add(this.root, "div", { class: "shares" });
    const help = add(this.root, "p", { class: "help unseen", id: `${id}-help` }, HELP);
    this.live = add(this.root, "p", { class: "unseen", "aria-live": "polite", role: "status" });
    this.areaSums = new Area(this.root, () => this.mark(null));
    this.table = new Table(this.root, `${id}-table`, this);
    this.gestures = new Gestures(this.canvas, this);
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
    this.stage.lay(lanes, this.how(), facts.palette);
    this.selected = null;
    this.hover(null);
    this.ask(this.before && this.asked?.which === "before" ? this.before : this.after);
    if (this.view) this.show(...this.view);
    this.describe(kinds, causes);
    if (this.area) this.mark(this.area);
  }

  /** How the recording before is shown. As a ghost it would hide the other one if it is much longer. */
  how() {
    const { after, before } = this.facts;
    if (!before) return "alone";
    const [short, long] = [took(after), took(before)].sort((a, b) => a - b);
    return long > STACKED * short ? "stacked" : "ghosted";
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
    this.otherButton.hidden = !this.before;
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
    this.otherButton.setAttribute("aria-pressed", String(recording.which === "before"));
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

  reset() {
    this.view = null;
    this.redraw();
  }

  // ---- what is pointed at

  /** Returns the target at a point of the canvas: a ghost that stands out comes first. */
  find(x, y) {
    const { stage, before, after } = this;
    const row = x < GUTTER ? null : stage.rowAt(y);
    if (!row) return null;
    const at = stage.timeAt(x), near = 4 / stage.scale;
    const ask = (recording) => {
      if (row.lane === null) return recording.bubbleAt(at, near / 4);
      return recording.eventAt(row.lane, at, near) ?? (row.host ? null : recording.bubbleAt(at, near / 4));
    };
    if (!before) return ask(after);
    if (row.which) return ask(row.which === "before" ? before : after);
    const [top] = row.lane === null ? stage.idleSlot("after") : stage.slot(row, "", false);
    const ghost = row.lane === null ? before.bubbleAt(at, near / 4) : before.eventAt(row.lane, at, near);
    if (y < top) return ghost ?? ask(after);
    const own = ask(after);
    return (own?.what === "events" || row.lane === null ? own : null) ?? ghost ?? own;
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
    this.redraw();
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
    this.hover(this.selected);
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
    if (this.area) this.areaSums.show(this.area, this.before ? [this.before, this.after] : [this.after]);
    else this.areaSums.hide();
    this.redraw();
  }

  markSeen() {
    this.mark(this.range);
    this.sayArea();
  }

  sayArea() {
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
      drawLanes(stage, recording, ghost);
      pen.globalAlpha = 1;
    }
    if (this.search.found) drawMatches(stage, this.asked, this.search.found);
    for (const target of [this.selected, this.hovered]) {
      if (target) drawTarget(stage, this.recordingOf(target), target, target === this.selected);
    }
    pen.restore();
    drawOverview(stage, this.length, this.view !== null);
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
