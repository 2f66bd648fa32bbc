// All layers of the drawing, from the ground up.
import { drawBubbles } from "./bubbles.js";
import { drawAnswer, drawArea, drawMarkName, drawMatches, drawMoment, drawTarget } from "./focus.js";
import { drawGround, drawOverview } from "./ground.js";
import { drawLanes } from "./lanes.js";
import { drawQueue } from "./queue.js";
import { AXIS, GUTTER, OVERVIEW } from "./stage.js";
import { drawBeginnings, drawSteps } from "./steps.js";

export function drawAll(view) {
  const { stage, facts, seen } = view;
  const { pen } = stage;
  drawGround(stage, facts.after.modelled);
  pen.save();
  pen.translate(GUTTER, 0);
  pen.beginPath();
  pen.rect(0, AXIS - 6, stage.plotWidth, stage.height - OVERVIEW - AXIS + 6);
  pen.clip();
  if (view.mark.area) drawArea(stage, view.mark.area);
  for (const recording of view.recordings) drawRecording(stage, recording);
  drawFocus(view);
  pen.restore();
  drawOverview(stage, seen.length, !seen.isAll);
}

function drawRecording(stage, recording) {
  const ghost = stage.isGhost(recording.which);
  stage.pen.globalAlpha = ghost ? (stage.dark ? 0.34 : 0.26) : 1;
  drawBubbles(stage, recording, ghost);
  drawBeginnings(stage, recording);
  drawLanes(stage, recording, ghost);
  drawQueue(stage, recording);
  drawSteps(stage, recording);
  stage.pen.globalAlpha = 1;
}

function drawFocus(view) {
  const { stage, mark, search, selected, hovered } = view;
  if (mark.asks && mark.area) drawMarkName(stage, mark.area);
  if (view.facts.answer) drawAnswer(stage, view.facts.answer);
  if (search.found) drawMatches(stage, view.asked, search.found);
  if (view.stepper.isOpen && selected) {
    drawMoment(stage, view.recordingOf(selected).spanOf(selected)[0]);
  }
  for (const target of [selected, hovered]) {
    if (target) drawTarget(stage, view.recordingOf(target), target, target === selected);
  }
}
