// The depth of the queue as a thin curve in a row of its own.
import { upper } from "../recording/columns.js";

export function drawQueue(stage, recording) {
  const row = stage.rowsOf(recording.which).find(({ what }) => what === "queue");
  const { queue } = recording;
  if (!row || !queue.peak) return;
  const { pen } = stage;
  const bottom = row.top + row.height - 3, height = row.height - 7;
  const y = (depth) => bottom - (depth / queue.peak) * height;
  const last = Math.min(stage.plotWidth, stage.x(recording.length));
  pen.strokeStyle = stage.ink;
  pen.lineWidth = 1;
  pen.beginPath();
  let next = upper(queue.times, stage.start), drawn = null;
  for (let x = Math.max(Math.floor(stage.x(0)), 0); x < last; x++) {
    const end = upper(queue.times, stage.start + (x + 1) / stage.scale);
    const depth = queue.largest(next, end);
    next = end;
    if (depth === drawn) continue;
    if (drawn === null) pen.moveTo(x + 0.5, y(depth));
    else pen.lineTo(x + 0.5, y(drawn)), pen.lineTo(x + 0.5, y(depth));
    drawn = depth;
  }
  if (drawn !== null) pen.lineTo(last, y(drawn));
  pen.stroke();
  stage.marks += 1;
  if (stage.isGhost(recording.which)) return;
  const words = `most: ${queue.peak.toLocaleString("en")}`;
  pen.fillStyle = stage.ground;
  pen.globalAlpha = 0.75;
  pen.fillRect(0, row.top + 2, pen.measureText(words).width + 8, 13);
  pen.globalAlpha = 1;
  pen.fillStyle = stage.faint;
  pen.fillText(words, 4, row.top + 9);
}
