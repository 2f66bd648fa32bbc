// Highlights: the hovered and the selected target, the matches of a search, and a marked area.
import { AXIS, OVERVIEW } from "./stage.js";
import { sideOf } from "./steps.js";

const MOST_WAYS = 12; // arrows from a launch: a graph starts hundreds of kernels

export function drawTarget(stage, recording, target, selected) {
  const { pen } = stage;
  const ghost = stage.isGhost(target.which);
  const [from, to] = recording.spanOf(target);
  const left = stage.x(from), right = Math.max(stage.x(to), left + 2);
  pen.strokeStyle = stage.ink;
  pen.lineWidth = selected ? 2 : 1.25;
  if (target.what === "bubbles") {
    const [top, height] = stage.idleSlot(target.which);
    pen.strokeRect(left, top - 1, right - left, height + 2);
    return;
  }
  if (target.what === "queue") return;
  if (target.what === "steps") {
    const row = stage.rowsOf(target.which).find(({ what }) => what === "steps");
    const [top, height] = sideOf(row, target.side);
    pen.strokeRect(left, top, right - left, height);
    return;
  }
  const key = stage.kinds[recording.kind[target.index]].key;
  const [top, height] = stage.slot(stage.rowOf(target.which, recording.lane[target.index]), key, ghost);
  pen.strokeRect(left - 0.5, top - 1, right - left + 1, height + 2);
  const launch = recording.launched_by[target.index];
  if (launch >= 0) drawWay(stage, recording, launch, left, top);
  else if (recording.laneNames[recording.lane[target.index]] === "host") {
    for (const index of recording.startedBy(target.index).slice(0, MOST_WAYS)) drawStarted(stage, recording, target.index, index);
  }
}

/** Draws the arrow from a launch to one of the kernels and copies that it started. */
function drawStarted(stage, recording, launch, index) {
  const key = stage.kinds[recording.kind[index]].key;
  const row = stage.rowOf(recording.which, recording.lane[index]);
  const [top] = stage.slot(row, key, stage.isGhost(recording.which));
  drawWay(stage, recording, launch, stage.x(recording.start[index]), top);
}

/** Draws the moment that host, queue and device are shown at. */
export function drawMoment(stage, moment) {
  const x = stage.x(moment);
  stage.pen.fillStyle = stage.ink;
  stage.pen.fillRect(x - 0.75, AXIS - 6, 1.5, stage.height - OVERVIEW - AXIS + 2);
}

/** Draws an arrow from a launch to the kernel or copy that it started, at (x, y). */
function drawWay(stage, recording, launch, x, y) {
  const { pen } = stage;
  const host = stage.rowOf(recording.which, recording.lane[launch]);
  const bottom = host.top + host.height;
  const start = stage.x(recording.start[launch] + recording.duration[launch] / 2);
  pen.beginPath();
  pen.moveTo(start, bottom - 5);
  pen.bezierCurveTo(start, y - 12, x, bottom + 6, x, y - 2);
  pen.stroke();
  pen.fillStyle = stage.ink;
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x - 4, y - 7);
  pen.lineTo(x + 4, y - 7);
  pen.fill();
}

/** A tick below each event that was found: at most one for each pixel of a lane. */
export function drawMatches(stage, recording, matches) {
  const { pen } = stage;
  pen.fillStyle = stage.ink;
  for (const row of stage.rowsOf(recording.which)) {
    if (row.lane === undefined) continue;
    const seen = new Uint8Array(Math.ceil(stage.plotWidth) + 1);
    const mark = (from, to) => {
      const left = Math.max(Math.floor(stage.x(from)), 0);
      const right = Math.min(Math.ceil(stage.x(to)), seen.length);
      if (right >= 0 && left < seen.length) seen.fill(1, left, Math.max(right, left + 1));
    };
    const what = row.lane === null ? "bubbles" : "events";
    const found = row.lane === null ? matches.bubbles : matches.byLane[row.lane];
    for (const index of found) mark(...recording.spanOf({ what, index }));
    for (let first = 0; first < seen.length; ) {
      let end = first + 1;
      while (end < seen.length && seen[end] === seen[first]) end += 1;
      if (seen[first]) {
        pen.fillRect(first, row.top + row.height - 3, Math.max(end - first, 2), 3);
        stage.marks += 1;
      }
      first = end;
    }
  }
}

/** The answer to a question, beside the reader's mark. */
export function drawAnswer(stage, [from, to]) {
  const { pen } = stage;
  const left = stage.x(from), width = Math.max(stage.x(to) - left, 2);
  const bottom = stage.height - OVERVIEW - 6;
  pen.strokeStyle = stage.accent;
  pen.lineWidth = 2.5;
  pen.setLineDash([6, 3]);
  pen.strokeRect(left, AXIS + 2, width, bottom - AXIS - 2);
  pen.setLineDash([]);
  drawLabel(stage, "what happened", left + width, bottom - 8, stage.accent);
}

/** Words beside an edge of a mark, on a ground of their own. */
function drawLabel(stage, words, left, middle, colour) {
  const { pen } = stage;
  const width = pen.measureText(words).width + 8;
  const x = Math.min(Math.max(left + 3, 0), stage.plotWidth - width);
  pen.fillStyle = stage.ground;
  pen.fillRect(x, middle - 7, width, 14);
  pen.fillStyle = colour;
  pen.fillText(words, x + 4, middle + 0.5);
}

export function drawMarkName(stage, [from]) {
  drawLabel(stage, "your mark", stage.x(from), stage.height - OVERVIEW - 14, stage.ink);
}

export function drawArea(stage, [from, to]) {
  const { pen } = stage;
  const left = stage.x(from), right = Math.max(stage.x(to), left + 1);
  const height = stage.height - OVERVIEW - AXIS;
  pen.fillStyle = stage.dark ? "rgba(255,255,255,.10)" : "rgba(15,23,42,.08)";
  pen.fillRect(left, AXIS, right - left, height);
  pen.fillStyle = stage.ink;
  for (const edge of [left, right - 1]) pen.fillRect(edge, AXIS - 6, 1, height + 6);
  pen.fillRect(left, AXIS - 6, right - left, 2);
}
