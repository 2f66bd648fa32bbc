// The canvas: its size, its rows, its colours, and which moment lies where.

export const GUTTER = 98, AXIS = 24, OVERVIEW = 12, RIGHT = 10;
const HOST_ROW = 40, ROW = 40, IDLE_ROW = 24, STEPS_ROW = 38, QUEUE_ROW = 24;

export class Stage {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.hatches = new Map();
    this.marks = 0;
  }

  /** Lays out the rows from the top down, then idle time. `how` is "alone", "ghosted", where the
   * ghost takes each row's upper edge, or "stacked", where it has rows of its own above. */
  lay(lanes, how, { kinds, causes }, { withSteps, withQueue }) {
    Object.assign(this, { ghosted: how === "ghosted", stacked: how === "stacked", kinds, causes });
    this.rows = [];
    this.height = AXIS;
    for (const which of this.stacked ? ["before", "after"] : [null]) {
      if (withSteps) this.addRow({ which, what: "steps", name: "steps", height: STEPS_ROW });
      lanes.forEach((name, lane) => {
        const host = name === "host";
        this.addRow({ which, what: "lane", name, lane, host, height: host ? HOST_ROW : ROW });
        if (host && withQueue) this.addRow({ which, what: "queue", name: "queue", height: QUEUE_ROW });
      });
      this.addRow({ which, what: "idle", name: "idle", lane: null, height: IDLE_ROW });
    }
    this.height += OVERVIEW + 4;
  }

  addRow(row) {
    this.rows.push({ host: false, lane: undefined, ...row, top: this.height });
    this.height += row.height;
  }

  /** The rows in which a recording is drawn: "after" or "before". */
  rowsOf(which) {
    return this.rows.filter((row) => row.which === null || row.which === which);
  }

  /** The row of a lane of a recording, or with null its row of idle time. */
  rowOf(which, lane) {
    return this.rowsOf(which).find((row) => row.lane === lane);
  }

  /** True if this recording is drawn behind the other one. */
  isGhost(which) {
    return this.ghosted && which === "before";
  }

  /** Prepares the canvas: as wide as there is room, cleared, [start, end] µs from edge to edge.
   * Returns false if there is no room. */
  begin(range, root) {
    this.see(range);
    if (!this.width) return false;
    const ratio = window.devicePixelRatio || 1;
    const pixels = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.height = `${this.height}px`;
    }
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.marks = 0;
    this.readTheme(root);
    return true;
  }

  see([start, end]) {
    this.width = this.canvas.parentElement.clientWidth;
    this.plotWidth = Math.max(this.width - GUTTER - RIGHT, 50);
    [this.start, this.end] = [start, end];
    this.scale = this.plotWidth / (end - start);
  }

  /** Pixels right of the gutter. */
  x(moment) {
    return (moment - this.start) * this.scale;
  }

  timeAt(x) {
    return this.start + (x - GUTTER) / this.scale;
  }

  rowAt(y) {
    return this.rows.find((row) => y >= row.top && y < row.top + row.height);
  }

  /** Returns an event's [top, height] in its row. A ghost stands out above. */
  slot(row, key, ghost) {
    const inset = this.ghosted && !ghost ? 13 : 5;
    const top = row.top + (ghost ? 3 : inset), bottom = row.top + row.height - 5;
    if (key === "launch") return [bottom - (bottom - top) * 0.55, (bottom - top) * 0.55];
    return [top, bottom - top];
  }

  /** Returns the [top, height] of a recording's bubbles in its row of idle time. */
  idleSlot(which) {
    const idle = this.rowOf(which, null);
    const top = idle.top + (this.isGhost(which) ? 2 : this.ghosted ? 9 : 4);
    return [top, idle.top + idle.height - 4 - top];
  }

  readTheme(root) {
    const style = getComputedStyle(root);
    const ink = style.color;
    if (ink === this.ink && style.fontFamily === this.font) return;
    const [r, g, b] = ink.match(/[\d.]+/g).map(Number);
    this.dark = 0.3 * r + 0.6 * g + 0.1 * b > 140;
    this.ink = ink;
    this.font = style.fontFamily;
    this.faint = this.dark ? "#9aa5b1" : "#5f6b7a";
    this.ground = this.dark ? "#15181d" : "#ffffff";
    this.accent = this.dark ? "#a99df0" : "#4b3b8f";
    this.line = this.dark ? "rgba(255,255,255,.11)" : "rgba(15,23,42,.09)";
    root.classList.toggle("dark", this.dark);
    const tone = this.dark ? "dark" : "light";
    this.kindColours = this.kinds.map((kind) => kind[tone]);
    this.causeColours = this.causes.map((cause) => cause[tone]);
    for (const [index, colour] of this.kindColours.entries()) {
      root.style.setProperty(`--kind-${index}`, colour);
    }
    for (const [index, colour] of this.causeColours.entries()) {
      root.style.setProperty(`--cause-${index}`, colour);
    }
    this.hatches.clear();
  }

  /** A pattern of `colour`: 0 and 1 slanted lines and dots, 2 none, 3 lines the other way. */
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
}
