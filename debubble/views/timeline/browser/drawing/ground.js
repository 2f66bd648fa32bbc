// The background of the events: rows, their names, the axis, and an overview of the visible part.
import { tickLabel, tickStep } from "../words.js";
import { sideOf } from "./steps.js";
import { AXIS, GUTTER, OVERVIEW, RIGHT } from "./stage.js";

export function drawGround(stage, modelled) {
  const { pen, width, height } = stage;
  pen.font = `11px ${stage.font}`;
  pen.textBaseline = "middle";
  for (const row of stage.rows) {
    const last = row.which === "before" && row.lane === null;
    pen.fillStyle = last ? stage.faint : stage.line;
    pen.fillRect(0, row.top + row.height, width, 1);
    pen.fillStyle = row.what === "lane" ? stage.ink : stage.faint;
    const name = row.which ? `${row.which}: ${row.name}` : row.name;
    const middle = row.top + row.height / 2 + 0.5;
    pen.fillText(name, 4, middle, GUTTER - (row.what === "steps" ? 44 : 8));
    if (row.what === "steps") drawSides(stage, row);
  }
  pen.fillStyle = stage.faint;
  pen.fillText(modelled ? "modelled time" : "measured time", 4, AXIS / 2, GUTTER - 8);
  const { start, end } = stage;
  const step = tickStep(end - start, stage.plotWidth / 96);
  for (let tick = Math.ceil(start / step) * step; tick <= end; tick += step) {
    const x = GUTTER + stage.x(tick);
    pen.fillStyle = stage.line;
    pen.fillRect(Math.round(x), AXIS - 5, 1, height - OVERVIEW - AXIS);
    if (tick < -step / 2) continue;
    pen.fillStyle = stage.faint;
    const label = tickLabel(Math.abs(tick) < step / 2 ? 0 : tick, step);
    const half = pen.measureText(label).width / 2;
    pen.fillText(label, Math.min(Math.max(x - half, GUTTER), width - RIGHT - 2 * half), AXIS / 2);
  }
}

/** The names of the two halves of the row of steps. */
function drawSides(stage, row) {
  const { pen } = stage;
  pen.font = `9.5px ${stage.font}`;
  pen.textAlign = "right";
  for (const side of ["host", "device"]) {
    const [top, height] = sideOf(row, side);
    pen.fillText(side, GUTTER - 4, top + height / 2 + 0.5);
  }
  pen.textAlign = "left";
  pen.font = `11px ${stage.font}`;
}

/** A bar below: `length` is the whole axis in microseconds. */
export function drawOverview(stage, length, zoomed) {
  const { pen, plotWidth } = stage;
  const top = stage.height - OVERVIEW + 3;
  pen.fillStyle = stage.line;
  pen.fillRect(GUTTER, top, plotWidth, 4);
  if (!zoomed) return;
  const left = Math.max(stage.start / length, 0), right = Math.min(stage.end / length, 1);
  pen.fillStyle = stage.faint;
  pen.fillRect(GUTTER + left * plotWidth, top, Math.max((right - left) * plotWidth, 3), 4);
}
