// The named steps: boxes above the lanes, the host's above the device's, and where each begins.
import { fit } from "../words.js";

const PROMPT = /prompt|prefill/;
const NARROWEST_WORDS = 24; // pixels

/** [top, height] of a side of a step in the row of steps: "host" or "device". */
export function sideOf(row, side) {
  const height = (row.height - 6) / 2;
  return [row.top + 3 + (side === "host" ? 0 : height + 1), height - 1];
}

export function drawSteps(stage, recording) {
  const row = stage.rowsOf(recording.which).find(({ what }) => what === "steps");
  if (!row || stage.isGhost(recording.which)) return;
  recording.steps.forEach((step, index) => {
    for (const side of ["host", "device"]) if (step[side]) drawSide(stage, row, step, side, index);
  });
}

function drawSide(stage, row, step, side, index) {
  const { pen } = stage;
  const [from, to] = step[side];
  if (to < stage.start || from > stage.end) return;
  const left = Math.max(stage.x(from), 0), right = Math.min(stage.x(to), stage.plotWidth);
  const width = Math.max(right - left, 1);
  const [top, height] = sideOf(row, side);
  const isPrompt = PROMPT.test(step.name);
  const alpha = pen.globalAlpha;
  pen.fillStyle = isPrompt ? stage.accent : stage.ink;
  pen.globalAlpha = isPrompt ? 0.32 : index % 2 ? 0.1 : 0.17;
  pen.fillRect(left, top, width, height);
  pen.globalAlpha = 0.8;
  pen.fillRect(left, top, 1.5, height);
  pen.globalAlpha = alpha;
  stage.marks += 1;
  if (width >= NARROWEST_WORDS) {
    pen.fillStyle = stage.ink;
    pen.fillText(fit(pen, step.name, width - 8), left + 5, top + height / 2 + 0.5);
  }
}

/** Thin lines at which steps begin: on the host in its lane, on the device in the lanes below. */
export function drawBeginnings(stage, recording) {
  if (stage.isGhost(recording.which)) return;
  const rows = stage.rowsOf(recording.which);
  const host = rows.find((row) => row.host), last = rows.at(-1);
  if (!host) return;
  const bottom = host.top + host.height;
  const seen = new Set();
  stage.pen.fillStyle = stage.faint;
  for (const step of recording.steps) {
    for (const [side, top, end] of [["host", host.top, bottom], ["device", bottom, last.top + last.height]]) {
      if (!step[side]) continue;
      const x = Math.round(stage.x(step[side][0]));
      if (x < 0 || x > stage.plotWidth || seen.has(`${side} ${x}`)) continue;
      seen.add(`${side} ${x}`);
      stage.pen.fillRect(x, top, 1, end - top);
    }
  }
}
