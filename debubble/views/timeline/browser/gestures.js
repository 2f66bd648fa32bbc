// The pointer's gestures and the keys of the canvas.
import { AXIS } from "./drawing/stage.js";

export const HELP =
  "Drag to pan, turn the wheel to zoom, drag along the time axis (or with Shift) to mark an area. " +
  "Keys: arrow right and left step from event to event, and show what host, queue and device do. " +
  "With Shift they pan. Plus and minus zoom, Home shows everything. Enter goes to the " +
  "next event, B to the next bubble, with Shift to the previous. S marks the visible part and sums " +
  "it up, G switches to the recording before, F searches. Escape clears the selection. " +
  "List events shows the events as a table.";

export const MARK_HELP =
  "Drag along the timeline to mark your answer. The arrow keys move the end of the mark, with " +
  "Shift its start.";

export class Gestures {
  constructor(canvas, view) {
    this.canvas = canvas;
    this.view = view;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", () => this.onUp());
    canvas.addEventListener("pointercancel", () => this.onUp());
    canvas.addEventListener("pointerleave", () => {
      this.armed = false;
      view.hover(null);
    });
    canvas.addEventListener("dblclick", () => view.seen.reset());
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("blur", () => view.hover(null));
  }

  onWheel(event) {
    // A page that scrolls by under a resting pointer must not get caught here.
    if (!this.armed && document.activeElement !== this.canvas && !event.ctrlKey) return;
    const { view } = this;
    const everything = view.seen.isAll;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (everything) return;
      event.preventDefault();
      view.seen.pan((event.deltaX || event.deltaY) / view.stage.plotWidth);
    } else {
      if (everything && event.deltaY > 0) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      const turn = Math.min(Math.max(event.deltaY * lines, -300), 300);
      view.seen.zoom(Math.exp(turn * 0.0022), view.stage.timeAt(event.offsetX));
    }
  }

  onDown(event) {
    if (event.button !== 0) return;
    this.armed = true;
    if (this.view.mark.asks && this.view.mark.isLocked) return;
    const marks = event.shiftKey || event.offsetY < AXIS || this.view.mark.asks;
    this.drag = { x: event.offsetX, range: this.view.seen.range, moved: false, marks };
    this.canvas.setPointerCapture(event.pointerId);
  }

  onMove(event) {
    const { view, drag } = this;
    if (event.movementX || event.movementY) this.armed = true;
    this.canvas.style.cursor = event.offsetY < AXIS ? "col-resize" : "";
    if (!drag) return view.hover(view.find(event.offsetX, event.offsetY), event);
    const moved = event.offsetX - drag.x;
    if (Math.abs(moved) > 3) drag.moved = true;
    if (!drag.moved) return;
    view.hover(null);
    if (drag.marks) {
      const ends = [drag.x, event.offsetX].map((x) => view.stage.timeAt(x));
      return view.mark.set([Math.min(...ends), Math.max(...ends)]);
    }
    const [start, end] = drag.range;
    const shift = (moved / view.stage.plotWidth) * (end - start);
    view.seen.show(start - shift, end - shift);
  }

  onUp() {
    const { view, drag } = this;
    if (drag && !drag.moved) view.select(view.hovered);
    else if (drag?.marks) {
      view.mark.say();
      view.mark.give();
    }
    this.drag = null;
  }

  /** In a question the arrow keys move the end of the mark, with Shift its start. */
  onMarkKey(event) {
    const { view } = this;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) view.mark.move(by, event.shiftKey);
    else if (event.key === "Enter") view.model.send?.({ event: "submit" });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { view } = this;
    if (view.mark.asks) return this.onMarkKey(event);
    const step = event.shiftKey ? -1 : 1;
    const actions = {
      arrowleft: () => (event.shiftKey ? view.seen.pan(-0.15) : view.stepThrough(-1)),
      arrowright: () => (event.shiftKey ? view.seen.pan(0.15) : view.stepThrough(1)),
      arrowup: () => view.seen.zoom(0.7),
      arrowdown: () => view.seen.zoom(1 / 0.7),
      "+": () => view.seen.zoom(0.7),
      "=": () => view.seen.zoom(0.7),
      "-": () => view.seen.zoom(1 / 0.7),
      _: () => view.seen.zoom(1 / 0.7),
      home: () => view.seen.reset(),
      enter: () => view.step("events", step),
      b: () => view.step("bubbles", step),
      s: () => view.mark.markSeen(),
      g: () => view.askOther(),
      f: () => view.search.field.focus(),
      escape: () => view.letGo(),
    };
    const action = actions[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }
}
