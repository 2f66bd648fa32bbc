// The drawing: both programs on one axis, a row for each lane and one for bubbles.
import { endOf } from "./bubbles.js";
import { inTime } from "./sums.js";

const ROW = 22, GAP = 4, IDLE_ROW = 16, AXIS_HEIGHT = 22, HEAD = 18, BETWEEN = 12;
const FADED = 0.22;

export class Figure {
  constructor(canvas, palette) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.kinds = Object.fromEntries(palette.kinds.map((kind) => [kind.key, kind]));
    this.causes = Object.fromEntries(palette.causes.map((cause) => [cause.words, cause]));
  }

  /** Draws both runs. While they race, what begins after the moment `now` is faint. */
  draw(runs, length, now, isRacing) {
    const rows = this.lay(runs);
    if (!this.begin(rows.height)) return;
    this.length = length;
    this.drawAxis(rows.height);
    this.pen.globalAlpha = isRacing ? FADED : 1;
    this.drawBlocks(rows.blocks);
    this.pen.globalAlpha = 1;
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(0, 0, this.x(now), rows.height);
    this.pen.clip();
    this.drawBlocks(rows.blocks);
    this.pen.restore();
    this.drawNames(rows.blocks);
    this.drawHead(now, rows.height);
  }

  /** Places the lanes: each block has a name, and rows with their tops. */
  lay(runs) {
    let top = AXIS_HEIGHT;
    const blocks = runs.map((run, index) => {
      const lanes = ["host", ...streamsOf(run)];
      const block = { name: ["before", "after"][index], top, run, rows: [] };
      top += HEAD;
      for (const lane of lanes) {
        block.rows.push({ lane, top, height: ROW });
        top += ROW + GAP;
      }
      block.rows.push({ lane: "bubbles", top, height: IDLE_ROW });
      top += IDLE_ROW + BETWEEN;
      return block;
    });
    return { blocks, height: top };
  }

  begin(height) {
    const { canvas, pen } = this;
    const width = canvas.clientWidth;
    if (!width) return false;
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.width = width;
    this.left = width < 500 ? 56 : 76;
    this.ink = getComputedStyle(canvas).color;
    this.tone = isDark(this.ink) ? "light" : "dark";
    return true;
  }

  x(time) {
    return this.left + (this.width - this.left - 10) * Math.min(Math.max(time / this.length, 0), 1);
  }

  timeAt(x) {
    return Math.min(Math.max((x - this.left) / (this.width - this.left - 10), 0), 1) * this.length;
  }

  drawAxis(height) {
    const { pen } = this;
    pen.fillStyle = pen.strokeStyle = this.ink;
    pen.lineWidth = 1;
    const step = niceStep(this.length / Math.max(2, (this.width - this.left) / 110));
    for (let time = 0; time <= this.length * 1.0001; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.globalAlpha = 0.18;
      line(pen, x, AXIS_HEIGHT - 4, x, height - BETWEEN);
      pen.globalAlpha = 0.8;
      pen.textAlign = x > this.width - 40 ? "right" : time === 0 ? "left" : "center";
      pen.fillText(inTime(time).replace("0.0 µs", "0"), x, 9);
    }
    pen.textAlign = "left";
    pen.globalAlpha = 1;
  }

  drawBlocks(blocks) {
    for (const { run, rows } of blocks) {
      if (!run) continue;
      for (const row of rows) {
        if (row.lane === "bubbles") for (const bubble of run.bubbles) this.drawBubble(bubble, row);
        else for (const event of run.events) if (event.lane === row.lane) this.drawEvent(event, row);
      }
    }
  }

  drawEvent(event, row) {
    const { pen } = this;
    const left = this.x(event.start), width = Math.max(this.x(endOf(event)) - left, 1);
    const isCall = event.kind === "launch" || event.kind === "graph_launch";
    pen.fillStyle = this.colourOf(event);
    const [top, height] = isCall ? [row.top + row.height * 0.4, row.height * 0.6] : [row.top, row.height];
    pen.fillRect(left, top, width, height);
    if (event.kind === "sync") hatch(pen, left, row.top, width, row.height);
    if (width > 54) this.label(wordsOf(event), left, width, top + height / 2, this.tone === "dark" ? "#fff" : "#000");
  }

  drawBubble({ start, end, cause }, row) {
    const { pen } = this;
    const left = this.x(start), width = Math.max(this.x(end) - left, 1);
    pen.fillStyle = this.shade(this.causes[cause]);
    pen.fillRect(left, row.top, width, row.height);
    if (width > 46) this.label(inTime(end - start), left, width, row.top + row.height / 2, "#000");
  }

  label(words, left, width, middle, colour) {
    const { pen } = this;
    if (pen.measureText(words).width > width - 6) return;
    pen.fillStyle = colour;
    pen.fillText(words, left + 4, middle + 0.5);
  }

  colourOf({ kind, copyKind }) {
    return this.shade(this.kinds[copyKind ?? kind]);
  }

  shade({ light, dark }) {
    return this.tone === "dark" ? light : dark;
  }

  drawNames(blocks) {
    const { pen } = this;
    pen.fillStyle = this.ink;
    for (const { name, top, rows, run } of blocks) {
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillText(run ? name : `${name}: its program has a mistake`, 0, top + HEAD / 2 - 2);
      pen.font = "12px system-ui, sans-serif";
      for (const row of rows) pen.fillText(row.lane, 0, row.top + row.height / 2 + 0.5, this.left - 4);
    }
  }

  drawHead(now, height) {
    const { pen } = this;
    const x = this.x(now);
    pen.strokeStyle = pen.fillStyle = this.ink;
    pen.lineWidth = 1.5;
    line(pen, x, AXIS_HEIGHT - 6, x, height - BETWEEN);
    pen.beginPath();
    pen.moveTo(x - 5, AXIS_HEIGHT - 8);
    pen.lineTo(x + 5, AXIS_HEIGHT - 8);
    pen.lineTo(x, AXIS_HEIGHT);
    pen.fill();
  }
}

function streamsOf(run) {
  const lanes = new Set(run ? run.events.map(({ lane }) => lane) : []);
  lanes.delete("host");
  return lanes.size ? [...lanes].sort() : ["stream 0"];
}

function wordsOf({ kind, name }) {
  const words = { mm: "matmul", "add.Tensor": "kernel", h2d_pinned: "upload", h2d_pageable: "upload", d2h: "download" };
  return kind === "sync" ? "waits" : kind === "graph_launch" ? "graph" : words[name] ?? name;
}

function hatch(pen, left, top, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  pen.strokeStyle = "rgba(255,255,255,.35)";
  pen.lineWidth = 2;
  for (let x = left - height; x < left + width; x += 7) line(pen, x, top + height, x + height, top);
  pen.restore();
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

/** True if text of this colour lies on a dark ground. */
function isDark(colour) {
  const [red, green, blue] = colour.match(/[\d.]+/g).map(Number);
  return red * 0.3 + green * 0.6 + blue * 0.1 > 140;
}
