// Idle time of the device: boxes in a row of their own, and a pale band over the streams.
import { lower, upper } from "../recording/columns.js";

const FAINTEST = 0.04;

export function drawBubbles(stage, recording, ghost) {
  const { pen, plotWidth } = stage;
  const { bubbles } = recording;
  const idle = stage.rowOf(recording.which, null).top;
  const streams = stage.rowsOf(recording.which).find((row) => row.what === "lane" && !row.host)?.top ?? idle;
  const [top, height] = stage.idleSlot(recording.which);
  const columns = stage.causes.map(() => new Float32Array(Math.ceil(plotWidth) + 1));
  const alpha = pen.globalAlpha;
  const paint = (cause, left, width, share) => {
    stage.marks += 1;
    pen.fillStyle = stage.causeColours[cause];
    pen.globalAlpha = alpha * share;
    pen.fillRect(left, top, width, height);
    if (ghost) return;
    if (width > 5) {
      pen.fillStyle = stage.hatch(stage.dark ? "rgba(0,0,0,.34)" : "rgba(255,255,255,.5)", cause);
      pen.fillRect(left, top, width, height);
    }
    pen.fillStyle = stage.causeColours[cause];
    pen.globalAlpha = (stage.dark ? 0.2 : 0.15) * share;
    pen.fillRect(left, streams, width, idle - streams);
  };
  const last = upper(bubbles.start, stage.end);
  for (let index = lower(bubbles.reach, stage.start); index < last; index++) {
    const left = Math.max(stage.x(bubbles.start[index]), 0);
    const right = Math.min(stage.x(bubbles.reach[index]), plotWidth);
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
      if (share > FAINTEST) paint(cause, column, 1, Math.min(share, 1));
    });
  });
  pen.globalAlpha = alpha;
}
