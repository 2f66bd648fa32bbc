// The interactive timeline: events arrive as bytes, columns as `facts.layout` names them, and are
// drawn on a canvas. Nothing is loaded from anywhere.

const GUTTER = 98, AXIS = 24, HOST_ROW = 40, ROW = 40, IDLE_ROW = 24, OVERVIEW = 12, RIGHT = 10;
const SHORTEST_VIEW = 0.05; // microseconds
const NARROWEST_BOX = 4; // pixels
const SHADES = 128;
const TABLE_PAGE = 100;
const READERS = {
  "<f8": [Float64Array, 8],
  "<f4": [Float32Array, 4],
  "<i4": [Int32Array, 4],
  u1: [Uint8Array, 1],
};
const HELP =
  "Arrow left and right pan, plus and minus zoom, Home shows everything. Enter steps to the next " +
  "event, B to the next bubble, with Shift to the previous one. Escape lets go. " +
  "The button Table shows the same as a table.";

export default {
  render({ model, el }) {
    const view = new TimelineView(model, el);
    return () => view.remove();
  },
};

class TimelineView {
  constructor(model, el) {
    this.model = model;
    this.view = null; // [start, end] in microseconds, or null: everything
    this.selected = null; // { events | bubbles: index }
    this.hovered = null;
    this.tablePage = 0;
    this.frame = 0;
    this.build(el);
    this.read();
    this.onChange = () => this.read();
    model.on("change:facts", this.onChange);
    this.onScroll = () => this.placeTip();
    addEventListener("scroll", this.onScroll, { capture: true, passive: true });
    this.resizes = new ResizeObserver(() => this.redraw());
    this.resizes.observe(this.canvas.parentElement);
    this.themes = new MutationObserver(() => this.redraw());
    for (const node of [document.documentElement, document.body]) {
      this.themes.observe(node, { attributes: true });
    }
  }

  remove() {
    this.model.off("change:facts", this.onChange);
    removeEventListener("scroll", this.onScroll, { capture: true });
    this.resizes.disconnect();
    this.themes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  // ---- the page around the canvas

  build(el) {
    const id = `debubble-timeline-${Math.random().toString(36).slice(2)}`;
    this.root = add(el, "section", { class: "debubble-timeline", "aria-label": "Timeline" });
    add(this.root, "style", {}, STYLE);
    const head = add(this.root, "div", { class: "head" });
    this.badge = add(head, "span", { class: "badge" });
    const tools = add(head, "span", { class: "tools", role: "group", "aria-label": "View" });
    this.button(tools, "−", "Zoom out", () => this.zoom(1 / 0.6));
    this.button(tools, "+", "Zoom in", () => this.zoom(0.6));
    this.button(tools, "All", "Show everything", () => this.reset());
    this.tableButton = this.button(tools, "Table", "Show the events as a table", () =>
      this.toggleTable(),
    );
    this.tableButton.setAttribute("aria-pressed", "false");
    this.tableButton.setAttribute("aria-controls", `${id}-table`);
    this.counts = add(this.root, "div", { class: "counts" });
    const stage = add(this.root, "div", { class: "stage" });
    this.canvas = add(stage, "canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "timeline",
      "aria-describedby": `${id}-help`,
    });
    // A popover lies above the page: no output area that it is larger than cuts it off.
    this.tip = add(stage, "div", { class: "tip", popover: "manual" });
    this.legend = add(this.root, "div", { class: "legend" });
    this.shares = add(this.root, "div", { class: "shares" });
    add(this.root, "p", { class: "unseen", id: `${id}-help` }, HELP);
    this.live = add(this.root, "p", { class: "unseen", "aria-live": "polite", role: "status" });
    this.table = add(this.root, "div", { class: "table", id: `${id}-table`, hidden: "" });
    this.listen();
  }

  button(parent, text, label, action) {
    const button = add(parent, "button", { type: "button", title: label }, text);
    button.setAttribute("aria-label", label);
    button.addEventListener("click", action);
    return button;
  }

  // ---- data

  read() {
    const facts = this.model.get("facts");
    this.facts = facts;
    this.kinds = facts.palette.kinds;
    this.causes = facts.palette.causes;
    const lanes = [...facts.after.lanes];
    for (const lane of facts.before?.lanes ?? []) if (!lanes.includes(lane)) lanes.push(lane);
    this.lanes = lanes;
    this.after = new EventSet(this.model, facts, "after", lanes);
    this.before = facts.before ? new EventSet(this.model, facts, "before", lanes) : null;
    this.length = Math.max(this.after.length, this.before?.length ?? 0, 1);
    this.selected = this.hovered = null;
    this.tablePage = 0;
    this.tip.hidePopover();
    if (this.view) this.show(...this.view);
    this.describe();
    this.redraw();
  }

  describe() {
    const { after, before } = this.facts;
    this.badge.textContent = after.label;
    this.badge.classList.toggle("modelled", after.modelled);
    this.badge.title = after.modelled
      ? "These times come from a cost model, not from a clock"
      : "These times were measured";
    this.counts.replaceChildren();
    for (const [name, [one, many]] of Object.entries(this.facts.palette.counts)) {
      const now = after.counts[name], then = before?.counts[name] ?? now;
      if (!now && !then) continue;
      const item = add(this.counts, "span", {});
      if (then !== now) {
        add(item, "s", { "aria-label": `before ${then}` }, then.toLocaleString("en"));
        item.append(" → ");
      }
      add(item, "b", {}, now.toLocaleString("en"));
      item.append(` ${now === 1 ? one : many}`);
    }
    const parts = [...this.counts.children].map((item) => item.textContent);
    this.canvas.setAttribute(
      "aria-label",
      `Timeline, ${after.label}: ${parts.join(", ") || "nothing recorded"}. ` +
        `Device ${this.idleWords(after)}.` +
        (before ? ` Ghosted behind, before: device ${this.idleWords(before)}.` : ""),
    );
    this.describeLegend();
  }

  idleWords(facts) {
    const share = facts.idle_by_cause.reduce((sum, part) => sum + part, 0);
    return `idle ${percent(share)} of ${time(facts.span)}`;
  }

  describeLegend() {
    this.legend.replaceChildren();
    const seen = new Set(this.after.kind);
    this.kinds.forEach((kind, index) => {
      if (!seen.has(index)) return;
      const item = add(this.legend, "span", {});
      add(item, "i", { class: `swatch ${kind.key}`, "data-kind": index });
      item.append(kind.words);
    });
    this.shares.replaceChildren();
    const rows = this.facts.before ? ["before", "after"] : ["after"];
    for (const which of rows) {
      const facts = this.facts[which];
      if (!facts.span) continue;
      const row = add(this.shares, "div", { class: "share" });
      const words = this.idleWords(facts);
      add(row, "span", { class: "which" }, this.facts.before ? which : "device");
      const bar = add(row, "span", { class: "bar", "aria-hidden": "true" });
      const longest = Math.max(facts.span, this.facts.before?.span ?? 0, this.facts.after.span);
      bar.style.width = `${(100 * facts.span) / longest}%`;
      const idle = facts.idle_by_cause.reduce((sum, part) => sum + part, 0);
      add(bar, "i", { class: "working" }).style.flexGrow = 1 - idle;
      const text = add(row, "span", { class: "words" }, words);
      facts.idle_by_cause.forEach((share, cause) => {
        add(bar, "i", { "data-cause": cause }).style.flexGrow = share;
        if (share <= 0) return;
        const item = add(text, "span", { class: "cause" });
        add(item, "i", { class: "swatch", "data-cause": cause });
        item.append(`${this.causes[cause].words} ${percent(share)}`);
      });
    }
  }

  // ---- the part that is seen

  get range() {
    return this.view ?? [-0.008 * this.length, 1.008 * this.length];
  }

  show(start, end) {
    const [first, last] = [-0.008 * this.length, 1.008 * this.length];
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

  timeAt(x) {
    const [start, end] = this.range;
    return start + ((x - GUTTER) / this.plotWidth) * (end - start);
  }

  // ---- pointer and keys

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", () => this.onUp());
    canvas.addEventListener("pointercancel", () => this.onUp());
    canvas.addEventListener("pointerleave", () => {
      this.armed = false;
      this.hover(null);
    });
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("blur", () => this.hover(null));
  }

  onWheel(event) {
    // A page that scrolls by under a resting pointer must not get caught here.
    if (!this.armed && document.activeElement !== this.canvas && !event.ctrlKey) return;
    const everything = this.view === null;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (everything) return;
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / this.plotWidth);
    } else {
      if (everything && event.deltaY > 0) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      const turn = Math.min(Math.max(event.deltaY * lines, -300), 300);
      this.zoom(Math.exp(turn * 0.0022), this.timeAt(event.offsetX));
    }
  }

  onDown(event) {
    if (event.button !== 0) return;
    this.armed = true;
    this.drag = { x: event.offsetX, range: this.range, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  onMove(event) {
    if (event.movementX || event.movementY) this.armed = true;
    if (!this.drag) return this.hover(this.find(event.offsetX, event.offsetY), event);
    const moved = event.offsetX - this.drag.x;
    if (Math.abs(moved) > 3) this.drag.moved = true;
    if (!this.drag.moved) return;
    this.hover(null);
    const [start, end] = this.drag.range;
    const shift = (moved / this.plotWidth) * (end - start);
    this.show(start - shift, end - shift);
  }

  onUp() {
    if (this.drag && !this.drag.moved) this.select(this.hovered);
    this.drag = null;
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = event.shiftKey ? -1 : 1;
    const actions = {
      ArrowLeft: () => this.pan(-0.15),
      ArrowRight: () => this.pan(0.15),
      ArrowUp: () => this.zoom(0.7),
      ArrowDown: () => this.zoom(1 / 0.7),
      "+": () => this.zoom(0.7),
      "=": () => this.zoom(0.7),
      "-": () => this.zoom(1 / 0.7),
      _: () => this.zoom(1 / 0.7),
      Home: () => this.reset(),
      Enter: () => this.step("events", step),
      b: () => this.step("bubbles", step),
      B: () => this.step("bubbles", step),
      Escape: () => this.select(null),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  /** Go to the next event or bubble, from what is selected or else from the left edge. */
  step(what, by) {
    const order = what === "events" ? this.after.order : this.after.bubbleOrder;
    if (!order.length) return this.say(`No ${what}.`);
    let at;
    if (this.selected?.what === what) at = order.indexOf(this.selected.index) + by;
    else {
      const from = this.selectedCentre() ?? this.range[0];
      const starts = what === "events" ? this.after.start : this.after.bubbles.start;
      at = order.findIndex((index) => starts[index] >= from);
      if (at < 0) at = order.length;
      if (by < 0) at -= 1;
    }
    if (at < 0 || at >= order.length) return this.say(`No more ${what}.`);
    this.select({ what, index: order[at] });
    this.reveal();
    this.hover(this.selected);
  }

  select(target) {
    this.selected = target;
    if (target) this.say(this.lines(target).join(", ").replace("› ", ""));
    else this.hover(null);
    this.redraw();
  }

  selectedCentre() {
    if (!this.selected) return null;
    const [start, end] = this.spanOf(this.selected);
    return (start + end) / 2;
  }

  spanOf({ what, index }) {
    const set = what === "events" ? this.after : this.after.bubbles;
    return [set.start[index], set.start[index] + set.duration[index]];
  }

  reveal() {
    const [start, end] = this.spanOf(this.selected);
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

  say(words) {
    this.live.textContent = words;
  }

  // ---- hover

  find(x, y) {
    if (x < GUTTER) return null;
    const row = this.rows.find((row) => y >= row.top && y < row.top + row.height);
    if (!row) return null;
    const [start, end] = this.range;
    const near = (4 * (end - start)) / this.plotWidth;
    const at = this.timeAt(x);
    const bubble = () => {
      const index = this.after.bubbles.at(at, near / 4);
      return index < 0 ? null : { what: "bubbles", index };
    };
    if (row.lane === null) return bubble();
    const index = this.after.at(row.lane, at, near);
    if (index >= 0) return { what: "events", index };
    return row.host ? null : bubble();
  }

  hover(target, pointer = null) {
    const same = this.hovered?.what === target?.what && this.hovered?.index === target?.index;
    this.hovered = target;
    if (!same) this.redraw();
    this.tip.togglePopover(Boolean(target));
    if (!target) return;
    if (!same || !this.tip.childElementCount) {
      const [title, ...rest] = this.lines(target);
      this.tip.replaceChildren();
      add(this.tip, "b", {}, title);
      for (const line of rest) {
        const code = line.startsWith("› ");
        add(this.tip, "div", { class: code ? "code" : "" }, code ? line.slice(2) : line);
      }
    }
    const [start, end] = this.spanOf(target);
    const x = pointer ? pointer.offsetX : GUTTER + this.x((start + end) / 2);
    const y = pointer ? pointer.offsetY : this.height - 18;
    this.tipAt = [x, y];
    this.placeTip();
  }

  /** Below and right of its place on the canvas, or where the window has room for it. */
  placeTip() {
    if (!this.hovered) return;
    const box = this.canvas.getBoundingClientRect();
    if (box.bottom < 0 || box.top > innerHeight) return this.hover(null);
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const within = (place, room) => `${Math.max(Math.min(place, room - 4), 4)}px`;
    const y = box.top + this.tipAt[1];
    const top = y + 18 + height <= innerHeight - 4 ? y + 18 : y - 10 - height;
    this.tip.style.left = within(
      box.left + this.tipAt[0] + 14,
      document.documentElement.clientWidth - width,
    );
    this.tip.style.top = within(top, innerHeight - height);
  }

  /** What there is to say of an event or a bubble; source text after "› ". */
  lines({ what, index }) {
    const { sources } = this.facts.after;
    const place = (number) => {
      if (number < 0) return [];
      const [where, text] = sources[number];
      return text ? [where, `› ${text}`] : [where];
    };
    const [, title, source] = this.about({ what, index });
    if (what === "bubbles") {
      return [title, time(this.after.bubbles.duration[index]), ...place(source)];
    }
    const set = this.after;
    const size = set.bytes[index] ? `, ${bytes(set.bytes[index])}` : "";
    const lines = [
      title,
      `${time(set.duration[index])}${size}, at ${time(set.start[index])}`,
    ];
    const launch = set.launched_by[index];
    if (launch >= 0) {
      const late = set.start[index] - set.start[launch];
      const call = this.facts.after.names[set.name[launch]];
      lines.push(`launched by ${call}, ${time(Math.max(late, 0))} before it ran`);
    }
    return [...lines, ...place(source)];
  }

  // ---- drawing

  redraw() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    }
  }

  x(at) {
    const [start, end] = this.range;
    return ((at - start) / (end - start)) * this.plotWidth;
  }

  draw() {
    const began = performance.now();
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    this.plotWidth = Math.max(width - GUTTER - RIGHT, 50);
    this.layRows();
    const scale = window.devicePixelRatio || 1;
    const pixels = [Math.round(width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.height = `${this.height}px`;
    }
    const pen = this.canvas.getContext("2d");
    this.pen = pen;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, this.height);
    this.readTheme();
    this.drawGround(width);
    pen.save();
    pen.translate(GUTTER, 0);
    pen.beginPath();
    pen.rect(0, 0, this.plotWidth, this.height - OVERVIEW);
    pen.clip();
    if (this.before) this.drawSet(this.before, true);
    this.drawSet(this.after, false);
    this.drawFocus();
    pen.restore();
    this.drawOverview();
    if (!this.table.hidden) this.fillTable();
    const [start, end] = this.range;
    Object.assign(this.root.dataset, {
      start: start.toFixed(3),
      end: end.toFixed(3),
      selected: this.selected ? `${this.selected.what} ${this.selected.index}` : "",
      drawMs: (performance.now() - began).toFixed(2),
    });
  }

  layRows() {
    let top = AXIS;
    this.rows = this.lanes.map((name, lane) => {
      const host = name === "host";
      const row = { name, lane, host, top, height: host ? HOST_ROW : ROW };
      top += row.height;
      return row;
    });
    this.rows.push({ name: "idle", lane: null, host: false, top, height: IDLE_ROW });
    this.height = top + IDLE_ROW + OVERVIEW + 4;
  }

  readTheme() {
    const style = getComputedStyle(this.root);
    const ink = style.color;
    const [r, g, b] = ink.match(/[\d.]+/g).map(Number);
    this.dark = 0.3 * r + 0.6 * g + 0.1 * b > 140;
    this.ink = ink;
    this.faint = this.dark ? "#9aa5b1" : "#5f6b7a";
    this.line = this.dark ? "rgba(255,255,255,.11)" : "rgba(15,23,42,.09)";
    this.ground = this.dark ? "#14181d" : "#ffffff";
    this.font = style.fontFamily;
    this.root.classList.toggle("dark", this.dark);
    const tone = this.dark ? "dark" : "light";
    this.kindColours = this.kinds.map((kind) => kind[tone]);
    this.causeColours = this.causes.map((cause) => cause[tone]);
    for (const swatch of this.root.querySelectorAll("[data-kind]")) {
      swatch.style.setProperty("--tone", this.kindColours[swatch.dataset.kind]);
    }
    for (const swatch of this.root.querySelectorAll("[data-cause]")) {
      swatch.style.setProperty("--tone", this.causeColours[swatch.dataset.cause]);
    }
    if (this.hatchTone !== tone) {
      this.hatchTone = tone;
      this.hatches = new Map();
    }
  }

  drawGround(width) {
    const { pen } = this;
    const [start, end] = this.range;
    pen.font = `11px ${this.font}`;
    pen.textBaseline = "middle";
    for (const row of this.rows) {
      pen.fillStyle = this.line;
      pen.fillRect(0, row.top + row.height, width, 1);
      pen.fillStyle = row.lane === null ? this.faint : this.ink;
      const text = row.lane === null ? "idle" : row.name;
      pen.fillText(text, 4, row.top + row.height / 2 + 0.5, GUTTER - 8);
    }
    const word = this.facts.after.modelled ? "modelled time" : "measured time";
    pen.fillStyle = this.faint;
    pen.fillText(word, 4, AXIS / 2, GUTTER - 8);
    const digits = tickStep(end - start, this.plotWidth / 96);
    for (let tick = Math.ceil(start / digits) * digits; tick <= end; tick += digits) {
      const x = GUTTER + this.x(tick);
      pen.fillStyle = this.line;
      pen.fillRect(Math.round(x), AXIS - 5, 1, this.height - OVERVIEW - AXIS);
      if (tick < -digits / 2) continue;
      pen.fillStyle = this.faint;
      const label = tickLabel(Math.abs(tick) < digits / 2 ? 0 : tick, digits);
      const half = pen.measureText(label).width / 2;
      pen.fillText(label, Math.min(Math.max(x - half, GUTTER), width - RIGHT - 2 * half), AXIS / 2);
    }
  }

  drawSet(set, ghost) {
    const { pen } = this;
    pen.globalAlpha = ghost ? (this.dark ? 0.34 : 0.26) : 1;
    this.drawBubbles(set, ghost);
    this.rows.forEach((row) => {
      if (row.lane !== null) this.drawLane(set, row, ghost);
    });
    pen.globalAlpha = 1;
  }

  /** Where an event lies in its row: [top, height]. The ghost stands out behind, above. */
  slot(row, key, ghost) {
    const inset = this.before && !ghost ? 13 : 5;
    const top = row.top + (ghost ? 3 : inset), bottom = row.top + row.height - 5;
    if (key === "launch") return [bottom - (bottom - top) * 0.55, (bottom - top) * 0.55];
    return [top, bottom - top];
  }

  /** Each event that is wide enough as a box, and of the others how much of each pixel they fill:
   * however many there are, a lane that is mostly idle looks so. */
  drawLane(set, row, ghost) {
    const { pen } = this;
    const [start, end] = this.range;
    const lane = set.lanes[row.lane];
    if (!lane) return;
    const last = upper(lane.starts, end);
    const boxes = this.kinds.map(() => []), crowds = this.kinds.map(() => null);
    const wide = [];
    for (let i = lower(lane.reach, start); i < last; i++) {
      const index = lane.index[i];
      const kind = set.kind[index];
      const left = this.x(set.start[index]);
      const right = this.x(set.start[index] + set.duration[index]);
      if (right - left >= NARROWEST_BOX) {
        boxes[kind].push([Math.max(left, -2), Math.min(right, this.plotWidth + 2)]);
        if (right - left >= 26 && !ghost) wide.push(index);
      } else (crowds[kind] ??= new Crowd(this.plotWidth)).add(left, right);
    }
    this.kinds.forEach(({ key }, kind) => {
      const [top, height] = this.slot(row, key, ghost);
      pen.fillStyle = this.kindColours[kind];
      if (crowds[kind]) this.drawCrowd(crowds[kind], top, height, row.host || key === "kernel");
      for (const [left, right] of boxes[kind]) pen.fillRect(left, top, right - left, height);
      if (key === "sync" && !ghost) {
        pen.fillStyle = this.hatch(this.dark ? "rgba(0,0,0,.30)" : "rgba(255,255,255,.42)", 0);
        for (const [left, right] of boxes[kind]) pen.fillRect(left, top, right - left, height);
      }
      // One box ends where the next one begins.
      pen.fillStyle = this.dark ? "rgba(0,0,0,.5)" : "rgba(255,255,255,.6)";
      for (const [, right] of boxes[kind]) pen.fillRect(right - 0.6, top, 0.6, height);
    });
    for (const index of wide) this.drawName(set, row, index);
  }

  /** Shades each pixel by the share that is filled; a line below says that there is anything.
   * What is not the most of its lane is low, so that the others are seen, and its line is higher. */
  drawCrowd({ shares, counts }, top, height, most) {
    const { pen } = this;
    const alpha = pen.globalAlpha;
    const from = most ? 0 : height * 0.55, mark = most ? 2 : 6;
    for (let first = 0; first < shares.length; ) {
      const level = Math.round(Math.min(shares[first], 1) * SHADES), there = counts[first] > 0;
      let end = first + 1;
      while (
        end < shares.length &&
        counts[end] > 0 === there &&
        Math.round(Math.min(shares[end], 1) * SHADES) === level
      ) {
        end += 1;
      }
      if (level) {
        pen.globalAlpha = (alpha * level) / SHADES;
        pen.fillRect(first, top + from, end - first, height - from - mark);
      }
      if (there) {
        pen.globalAlpha = alpha;
        pen.fillRect(first, top + height - mark, Math.max(end - first, 2), mark);
      }
      first = end;
    }
    pen.globalAlpha = alpha;
  }

  drawName(set, row, index) {
    const { pen } = this;
    const kind = this.kinds[set.kind[index]];
    const left = Math.max(this.x(set.start[index]), 0);
    const right = Math.min(this.x(set.start[index] + set.duration[index]), this.plotWidth);
    if (right - left < 26) return;
    const arrows = { h2d_pageable: "▲ ", h2d_pinned: "▲ ", d2h: "▼ ", d2d: "◆ " };
    const [top, height] = this.slot(row, kind.key, false);
    const name = this.facts.after.names[set.name[index]];
    const words = kind.key === "kernel" ? shortName(name) : kind.words;
    const room = right - left - 10;
    let text = fit(pen, (arrows[kind.key] ?? "") + words, room);
    if (kind.key === "sync" && text !== words) text = fit(pen, "sync", room);
    if (!text) return;
    if (kind.key === "sync") {
      pen.fillStyle = this.kindColours[set.kind[index]];
      pen.fillRect(left + 2, top + 3, pen.measureText(text).width + 6, height - 6);
    }
    pen.fillStyle = this.dark || kind.key === "sync" ? "#10141a" : "#ffffff";
    pen.fillText(text, left + 5, top + height / 2 + 0.5);
  }

  drawBubbles(set, ghost) {
    const { pen } = this;
    const [start, end] = this.range;
    const { bubbles } = set;
    const idle = this.rows[this.rows.length - 1];
    const first = this.rows.find((row) => !row.host) ?? idle;
    const inset = this.before && !ghost ? 9 : 4;
    const top = idle.top + (ghost ? 2 : inset), height = idle.top + idle.height - 4 - top;
    const columns = this.causes.map(() => new Float32Array(Math.ceil(this.plotWidth) + 1));
    const alpha = pen.globalAlpha;
    const paint = (cause, left, width, share) => {
      pen.fillStyle = this.causeColours[cause];
      pen.globalAlpha = alpha * share;
      pen.fillRect(left, top, width, height);
      if (ghost) return;
      if (width > 5) {
        pen.fillStyle = this.hatch(this.dark ? "rgba(0,0,0,.34)" : "rgba(255,255,255,.5)", cause);
        pen.fillRect(left, top, width, height);
      }
      pen.fillStyle = this.causeColours[cause];
      pen.globalAlpha = (this.dark ? 0.2 : 0.15) * share;
      pen.fillRect(left, first.top, width, idle.top - first.top);
    };
    const last = upper(bubbles.start, end);
    for (let index = lower(bubbles.reach, start); index < last; index++) {
      const left = Math.max(this.x(bubbles.start[index]), 0);
      const end = bubbles.start[index] + bubbles.duration[index];
      const right = Math.min(this.x(end), this.plotWidth);
      const cause = bubbles.cause[index];
      if (right - left >= 2) paint(cause, left, right - left, 1);
      else if (right > left) {
        // Shorter than that: shade the pixels by the share of them that is idle.
        const column = Math.floor(left), next = Math.min(right, column + 1);
        columns[cause][column] += next - left;
        if (right > next) columns[cause][column + 1] += right - next;
      }
    }
    columns.forEach((shares, cause) => {
      shares.forEach((share, column) => {
        if (share > 0.04) paint(cause, column, 1, Math.min(share, 1));
      });
    });
    pen.globalAlpha = alpha;
  }

  /** A pattern of `colour`: 0 and 1 slanted lines, 2 none, 3 lines the other way. */
  hatch(colour, style) {
    const key = `${colour} ${style}`;
    if (!this.hatches.has(key)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const pen = tile.getContext("2d");
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = 1.1;
      const line = (x0, y0, x1, y1) => {
        pen.beginPath();
        pen.moveTo(x0, y0);
        pen.lineTo(x1, y1);
        pen.stroke();
      };
      if (style === 0) for (const shift of [-6, 0, 6]) line(shift, 6, shift + 6, 0);
      if (style === 1) pen.fillRect(1, 1, 2, 2), pen.fillRect(4, 4, 2, 2);
      if (style === 3) for (const shift of [-6, 0, 6]) line(shift, 0, shift + 6, 6);
      this.hatches.set(key, this.pen.createPattern(tile, "repeat"));
    }
    return this.hatches.get(key);
  }

  /** Outlines for what is hovered and selected, and the way from its launch. */
  drawFocus() {
    for (const target of [this.selected, this.hovered]) {
      if (!target) continue;
      const { pen } = this;
      const [from, to] = this.spanOf(target);
      const left = this.x(from), right = Math.max(this.x(to), left + 2);
      pen.strokeStyle = this.ink;
      pen.lineWidth = target === this.selected ? 2 : 1.25;
      if (target.what === "bubbles") {
        const idle = this.rows[this.rows.length - 1];
        pen.strokeRect(left, idle.top + 2, right - left, idle.height - 4);
        continue;
      }
      const set = this.after, row = this.rows[set.lane[target.index]];
      const [top, height] = this.slot(row, this.kinds[set.kind[target.index]].key, false);
      pen.strokeRect(left - 0.5, top - 1, right - left + 1, height + 2);
      const launch = set.launched_by[target.index];
      if (launch < 0) continue;
      const host = this.rows[set.lane[launch]];
      const start = this.x(set.start[launch] + set.duration[launch] / 2);
      pen.beginPath();
      pen.moveTo(start, host.top + host.height - 5);
      pen.bezierCurveTo(start, top - 12, left, host.top + host.height + 6, left, top - 2);
      pen.stroke();
      pen.fillStyle = this.ink;
      pen.beginPath();
      pen.moveTo(left, top);
      pen.lineTo(left - 4, top - 7);
      pen.lineTo(left + 4, top - 7);
      pen.fill();
    }
  }

  drawOverview() {
    const { pen } = this;
    const [start, end] = this.range;
    const top = this.height - OVERVIEW + 3;
    pen.fillStyle = this.line;
    pen.fillRect(GUTTER, top, this.plotWidth, 4);
    if (!this.view) return;
    const left = Math.max(start / this.length, 0), right = Math.min(end / this.length, 1);
    pen.fillStyle = this.faint;
    const thumb = Math.max((right - left) * this.plotWidth, 3);
    pen.fillRect(GUTTER + left * this.plotWidth, top, thumb, 4);
  }

  // ---- the same as a table

  toggleTable() {
    this.table.hidden = !this.table.hidden;
    this.tableButton.setAttribute("aria-pressed", String(!this.table.hidden));
    this.tableFor = null;
    this.redraw();
  }

  /** Events and bubbles, in the order in which they begin. */
  targetsInView() {
    const [start, end] = this.range;
    const { order, bubbleOrder } = this.after;
    const all = [
      ...order.map((index) => ({ what: "events", index })),
      ...bubbleOrder.map((index) => ({ what: "bubbles", index })),
    ];
    const spans = all.map((target) => ({ target, span: this.spanOf(target) }));
    const seen = spans.filter(({ span: [from, to] }) => from <= end && to >= start);
    return seen.sort((a, b) => a.span[0] - b.span[0]).map(({ target }) => target);
  }

  /** [lane, what it is, number of its source line or -1] */
  about({ what, index }) {
    if (what === "bubbles") {
      const { cause, source } = this.after.bubbles;
      return ["idle", `bubble: ${this.causes[cause[index]].words}`, source[index]];
    }
    const { lane, kind, name, source } = this.after;
    const words = `${this.kinds[kind[index]].words}: ${this.facts.after.names[name[index]]}`;
    return [this.lanes[lane[index]], words, source[index]];
  }

  fillTable() {
    const key = `${this.range} ${this.tablePage} ${this.facts.revision}`;
    if (this.tableFor === key) return;
    const seen = this.targetsInView();
    const pages = Math.max(Math.ceil(seen.length / TABLE_PAGE), 1);
    this.tablePage = Math.min(this.tablePage, pages - 1);
    this.tableFor = `${this.range} ${this.tablePage} ${this.facts.revision}`;
    const from = this.tablePage * TABLE_PAGE;
    const rows = seen.slice(from, from + TABLE_PAGE);
    const active = document.activeElement;
    const held = this.table.contains(active) ? active.getAttribute("aria-label") : null;
    this.table.replaceChildren();
    const table = add(this.table, "table", {});
    const words = seen.length ? `${from + 1} to ${from + rows.length} of ${seen.length}` : "none";
    const caption = `Events and bubbles in view: ${words} (${this.facts.after.label})`;
    add(table, "caption", {}, caption);
    const head = add(add(table, "thead", {}), "tr", {});
    for (const name of ["Start", "Duration", "Lane", "What", "Source line"]) {
      add(head, "th", { scope: "col" }, name);
    }
    const body = add(table, "tbody", {});
    for (const target of rows) {
      const row = add(body, "tr", {});
      const [from, to] = this.spanOf(target);
      const [lane, name, source] = this.about(target);
      const [where, text] = source < 0 ? ["", ""] : this.facts.after.sources[source];
      add(row, "td", {}, time(from));
      add(row, "td", {}, time(to - from));
      add(row, "td", {}, lane);
      add(row, "th", { scope: "row" }, name);
      add(row, "td", {}, text ? `${where}: ${text}` : where);
      row.addEventListener("click", () => {
        this.select(target);
        this.reveal();
      });
    }
    if (pages < 2) return;
    const turn = (by) => {
      this.tablePage = Math.min(Math.max(this.tablePage + by, 0), pages - 1);
      this.redraw();
    };
    const pager = add(this.table, "div", { class: "pager" });
    const earlier = this.button(pager, "‹ earlier", "Earlier events", () => turn(-1));
    const later = this.button(pager, "later ›", "Later events", () => turn(1));
    earlier.disabled = this.tablePage === 0;
    later.disabled = this.tablePage === pages - 1;
    // The button that was pressed has been replaced: stay where the reader was.
    if (held === "Earlier events") (earlier.disabled ? later : earlier).focus();
    if (held === "Later events") (later.disabled ? earlier : later).focus();
  }
}

/** One recording, unpacked, ordered for quick look-up; time 0 is its first event. */
class EventSet {
  constructor(model, facts, which, lanes) {
    const about = facts[which];
    const unpack = (what) => {
      const bytes = model.get(which === "before" ? `ghost_${what}` : what);
      return columns(bytes, about[what], facts.layout[what]);
    };
    Object.assign(this, unpack("events"));
    this.bubbles = new Bubbles(unpack("bubbles"));
    const first = this.start.reduce((least, start) => Math.min(least, start), Infinity);
    for (const starts of [this.start, this.bubbles.start]) {
      for (let i = 0; i < starts.length; i++) starts[i] -= first;
    }
    this.bubbles.prepare();
    this.order = Array.from(this.start.keys()).sort((a, b) => this.start[a] - this.start[b]);
    this.bubbleOrder = Array.from(this.bubbles.start.keys());
    const own = about.lanes.map((name) => lanes.indexOf(name));
    this.lanes = lanes.map(() => null);
    for (const index of this.order) {
      const lane = (this.lane[index] = own[Math.min(this.lane[index], own.length - 1)]);
      this.lanes[lane] ??= { index: [], starts: [], reach: [] };
      const end = this.start[index] + this.duration[index];
      const { index: indices, starts, reach } = this.lanes[lane];
      indices.push(index);
      starts.push(this.start[index]);
      reach.push(Math.max(end, reach.length ? reach[reach.length - 1] : -Infinity));
    }
    this.length = 0;
    for (const lane of this.lanes) {
      if (lane) this.length = Math.max(this.length, lane.reach[lane.reach.length - 1]);
    }
  }

  /** The event of a lane at a moment or the nearest within `near` microseconds, or -1. */
  at(lane, moment, near) {
    const found = this.lanes[lane];
    if (!found) return -1;
    let best = -1, distance = near;
    const last = upper(found.starts, moment + near);
    for (let i = lower(found.reach, moment - near); i < last; i++) {
      const index = found.index[i];
      const start = this.start[index], end = start + this.duration[index];
      const away = Math.max(start - moment, moment - end, 0);
      if (away <= distance) [best, distance] = [index, away];
    }
    return best;
  }
}

class Bubbles {
  constructor(found) {
    Object.assign(this, found);
  }

  prepare() {
    this.reach = this.start.map((start, index) => start + this.duration[index]);
  }

  at(moment, near) {
    const index = lower(this.reach, moment - near);
    return index < this.start.length && this.start[index] <= moment + near ? index : -1;
  }
}

/** Events too short to be told apart: how much of each pixel they fill, and how many touch it. */
class Crowd {
  constructor(width) {
    this.shares = new Float32Array(Math.ceil(width));
    this.counts = new Uint32Array(Math.ceil(width));
  }

  add(left, right) {
    const last = Math.min(Math.floor(right), this.shares.length - 1);
    for (let pixel = Math.max(Math.floor(left), 0); pixel <= last; pixel++) {
      const share = Math.min(right, pixel + 1) - Math.max(left, pixel);
      if (share > 0) this.shares[pixel] += share;
      if (share > 0 || left === right) this.counts[pixel] += 1;
    }
  }
}

/** Columns of `count` numbers each, one after the other in a DataView. */
function columns(view, count, layout) {
  const found = {};
  let offset = view.byteOffset;
  for (const [name, type] of layout) {
    const [Type, size] = READERS[type];
    found[name] = new Type(view.buffer.slice(offset, offset + count * size));
    offset += count * size;
  }
  return found;
}

/** First place in a sorted list whose value is >= `wanted`. */
function lower(sorted, wanted) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** First place in a sorted list whose value is > `wanted`. */
function upper(sorted, wanted) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

function add(parent, tag, attributes, text = null) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

function time(us) {
  if (Math.abs(us) < 1000) return `${us.toFixed(1)} µs`;
  if (Math.abs(us) < 1e6) return `${(us / 1000).toFixed(2)} ms`;
  return `${(us / 1e6).toFixed(3)} s`;
}

function bytes(count) {
  if (count < 1024) return `${count} B`;
  const power = Math.min(Math.floor(Math.log(count) / Math.log(1024)), 3);
  return `${(count / 1024 ** power).toFixed(1)} ${["B", "KiB", "MiB", "GiB"][power]}`;
}

function percent(share) {
  return share > 0 && share < 0.005 ? "<1%" : `${Math.round(share * 100)}%`;
}

function tickStep(span, most) {
  const base = 10 ** Math.floor(Math.log10(span / Math.max(most, 2)));
  const steps = [1, 2, 5, 10].map((factor) => base * factor);
  return steps.find((step) => span / step <= Math.max(most, 2));
}

function tickLabel(us, step) {
  const units = [["s", 1e6], ["ms", 1000], ["µs", 1]];
  const [unit, size] = units.find(([, size]) => Math.abs(us) >= size) ?? units[2];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(us / size).toFixed(us === 0 ? 0 : Math.min(digits, 6))} ${unit}`;
}

/** `void at::native::vectorized_kernel<4, float>(int)` is told from others by its middle. */
function shortName(name) {
  return name.replace(/^void /, "").replace(/[<(].*$/, "").replace(/^.*::/, "") || name;
}

function fit(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = Math.floor((text.length * width) / pen.measureText(text).width) - 1;
  return letters >= 3 ? `${text.slice(0, letters)}…` : "";
}

// Nested below our own class: nothing of it reaches the page around.
const STYLE = `
.debubble-timeline {
  color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
  position: relative;
  font: 12px/1.45 var(--jp-ui-font-family, system-ui, sans-serif);
  padding: 4px 2px;
  [hidden] { display: none !important; }
  .head {
    display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center;
    justify-content: space-between; margin-bottom: 3px;
  }
  .badge {
    border: 1px solid currentColor; border-radius: 999px; padding: 0 9px; font-weight: 600;
    color: #00694c; white-space: nowrap;
  }
  .badge.modelled { color: #7a4b00; border-style: dashed; }
  &.dark .badge { color: #5fe0b7; }
  &.dark .badge.modelled { color: #f5c35b; }
  .counts { display: flex; flex-wrap: wrap; gap: 0 14px; margin-bottom: 4px; }
  .counts s { opacity: .65; }
  .tools { display: inline-flex; gap: 4px; }
  button {
    font: inherit; color: inherit; background: transparent; cursor: pointer; min-width: 26px;
    border: 1px solid var(--jp-border-color1, rgba(128,128,128,.5)); border-radius: 5px;
    padding: 1px 8px;
  }
  button:hover { background: rgba(128,128,128,.16); }
  button:disabled { opacity: .4; cursor: default; }
  button[aria-pressed=true] { background: rgba(128,128,128,.26); }
  button:focus-visible, canvas:focus-visible {
    outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 1px; border-radius: 4px;
  }
  .stage { position: relative; margin-bottom: 6px; }
  canvas { display: block; width: 100%; cursor: crosshair; touch-action: pan-y; }
  .tip {
    position: fixed; inset: auto; margin: 0; pointer-events: none; max-width: min(520px, 92vw);
    background: var(--jp-layout-color1, Canvas); padding: 6px 9px; overflow: hidden;
    color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
    border-radius: 6px; border: 1px solid var(--jp-border-color1, rgba(128,128,128,.5));
    box-shadow: 0 4px 14px rgba(0,0,0,.22); overflow-wrap: anywhere;
  }
  .tip .code {
    font-family: var(--jp-code-font-family, ui-monospace, monospace); margin-top: 3px;
  }
  .legend { display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: center; }
  .share {
    display: grid; grid-template-columns: 44px minmax(60px, 22%) 1fr; gap: 0 10px;
    align-items: center;
  }
  .legend > span, .cause, .words { display: inline-flex; align-items: center; }
  .words { flex-wrap: wrap; }
  .legend { margin: 2px 0 6px; }
  .cause { margin-left: 14px; }
  .which { opacity: .8; }
  .bar {
    display: inline-flex; height: 9px; border-radius: 3px; overflow: hidden; min-width: 12px;
  }
  .bar i { background: var(--tone); flex: 0 0 0; min-width: 0; }
  .bar .working { background: #0072b2; }
  &.dark .bar .working { background: #4ba6dd; }
  .swatch {
    width: 11px; height: 11px; border-radius: 2px; background: var(--tone); margin-right: 5px;
    flex: none;
  }
  .swatch.launch { height: 6px; margin-top: 4px; }
  .swatch.sync {
    background: repeating-linear-gradient(135deg, var(--tone) 0 2px,
      color-mix(in srgb, var(--tone) 45%, transparent) 2px 4px);
  }
  .unseen {
    position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
    margin: 0; white-space: nowrap;
  }
  .table { max-height: 320px; overflow: auto; margin-top: 6px; }
  table { border-collapse: collapse; width: 100%; font-size: 12px; }
  caption { text-align: left; padding: 2px 0 4px; font-weight: 600; }
  th, td {
    text-align: left; padding: 1px 10px 1px 0; font-weight: 400; vertical-align: top;
    overflow-wrap: anywhere;
  }
  thead th { font-weight: 600; border-bottom: 1px solid rgba(128,128,128,.4); }
  td:nth-child(-n+2), thead th:nth-child(-n+2) {
    text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums;
  }
  tbody tr { cursor: pointer; }
  tbody tr:hover { background: rgba(128,128,128,.12); }
  .pager { display: flex; gap: 6px; padding: 4px 0; }
}
`;
