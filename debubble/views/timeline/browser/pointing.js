// What lies at a point of the drawing.
import { GUTTER } from "./drawing/stage.js";
import { sideOf } from "./drawing/steps.js";

/** Returns the target at a point of the canvas, or null: a ghost that stands out comes first. */
export function targetAt({ stage, before, after }, x, y) {
  const row = x < GUTTER ? null : stage.rowAt(y);
  if (!row) return null;
  const at = stage.timeAt(x), near = 4 / stage.scale;
  const own = row.which === "before" ? before : after;
  if (row.what === "steps") return stepAtPoint(own, row, at, y, near);
  if (row.what === "queue") return at >= 0 && at <= own.length ? own.queueAt(at) : null;
  const ask = (recording) => {
    if (row.lane === null) return recording.bubbleAt(at, near / 4);
    return recording.eventAt(row.lane, at, near) ?? (row.host ? null : recording.bubbleAt(at, near / 4));
  };
  if (!before || row.which) return ask(own);
  const [top] = row.lane === null ? stage.idleSlot("after") : stage.slot(row, "", false);
  const ghost = row.lane === null ? before.bubbleAt(at, near / 4) : before.eventAt(row.lane, at, near);
  if (y < top) return ghost ?? ask(after);
  const found = ask(after);
  return (found?.what === "events" || row.lane === null ? found : null) ?? ghost ?? found;
}

function stepAtPoint(recording, row, at, y, near) {
  const [top] = sideOf(row, "device");
  return recording.stepSideAt(y < top ? "host" : "device", at, near);
}
