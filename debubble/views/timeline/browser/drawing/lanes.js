// The events of a recording: boxes where they are wide enough, and where not, how full a pixel is.
import { lower, upper } from "../recording/columns.js";
import { fit, inkOn, shortName } from "../words.js";
import { Crowd } from "./crowd.js";

const NARROWEST_BOX = 4; // pixels
const NARROWEST_NAME = 26;
const ARROWS = { h2d_pageable: "▲ ", h2d_pinned: "▲ ", d2h: "▼ ", d2d: "◆ " };

export function drawLanes(stage, recording, ghost) {
  for (const row of stage.rowsOf(recording.which)) {
    const lane = row.what === "lane" ? recording.lanes[row.lane] : null;
    if (lane) drawLane(stage, recording, row, lane, ghost);
  }
}

/** Draws a lane. One that is mostly idle looks so, whatever the number of events. */
function drawLane(stage, recording, row, lane, ghost) {
  const { pen, kinds, plotWidth, scale, start } = stage;
  const { starts, ends } = lane;
  const boxes = kinds.map(() => []), crowds = kinds.map(() => null);
  const named = [];
  const last = upper(starts, stage.end);
  for (let i = lower(lane.reach, start); i < last; i++) {
    const left = (starts[i] - start) * scale, right = (ends[i] - start) * scale;
    const kind = lane.kinds[i];
    if (right - left >= NARROWEST_BOX) {
      boxes[kind].push(Math.max(left, -2), Math.min(right, plotWidth + 2));
      if (right - left >= NARROWEST_NAME && !ghost) named.push(lane.index[i]);
    } else (crowds[kind] ??= new Crowd(plotWidth)).add(left, right);
  }
  kinds.forEach(({ key }, kind) => {
    if (!crowds[kind] && !boxes[kind].length) return;
    const [top, height] = stage.slot(row, key, ghost);
    pen.fillStyle = stage.kindColours[kind];
    if (crowds[kind]) {
      stage.marks += crowds[kind].draw(pen, top, height, row.host || key === "kernel");
    }
    fillAll(pen, boxes[kind], top, height);
    if (key === "sync" && !ghost) {
      pen.fillStyle = stage.hatch(stage.dark ? "rgba(0,0,0,.30)" : "rgba(255,255,255,.42)", 0);
      fillAll(pen, boxes[kind], top, height);
    }
    // One box ends where the next one begins.
    pen.fillStyle = stage.dark ? "rgba(0,0,0,.5)" : "rgba(255,255,255,.6)";
    for (let i = 1; i < boxes[kind].length; i += 2) {
      pen.fillRect(boxes[kind][i] - 0.6, top, 0.6, height);
    }
    stage.marks += boxes[kind].length / 2;
  });
  for (const index of named) drawName(stage, recording, row, index);
}

/** spans: left, right, left, right, … */
function fillAll(pen, spans, top, height) {
  for (let i = 0; i < spans.length; i += 2) {
    pen.fillRect(spans[i], top, spans[i + 1] - spans[i], height);
  }
}

function drawName(stage, recording, row, index) {
  const { pen } = stage;
  const kind = stage.kinds[recording.kind[index]], sync = kind.key === "sync";
  const from = recording.start[index];
  const left = Math.max(stage.x(from), 0);
  const right = Math.min(stage.x(from + recording.duration[index]), stage.plotWidth);
  if (right - left < NARROWEST_NAME) return;
  const [top, height] = stage.slot(row, kind.key, false);
  const name = recording.facts.names[recording.name[index]];
  const words = kind.key === "kernel" ? shortName(name) : kind.words;
  const room = right - left - 10;
  let text = fit(pen, (ARROWS[kind.key] ?? "") + words, room);
  if (sync && text !== words) text = fit(pen, "sync", room);
  if (!text) return;
  if (sync) {
    pen.fillStyle = stage.kindColours[recording.kind[index]];
    pen.fillRect(left + 2, top + 3, pen.measureText(text).width + 6, height - 6);
  }
  pen.fillStyle = inkOn(stage.kindColours[recording.kind[index]]);
  pen.fillText(text, left + 5, top + height / 2 + 0.5);
}
