// How two recordings share one axis.
import { took } from "../around/facts.js";

const STACKED = 3; // A recording that is more times as long as the other is drawn above it.
const LONG_LOAD = 0.15; // of the axis: a longer load is left out of the first view
const MANY = 50; // events of the device behind a load, without which the load is the subject

/** How the recording before is shown. As a ghost it would hide the other one if it is much longer. */
export function arrangement({ after, before }) {
  if (!before) return "alone";
  const [short, long] = [took(after), took(before)].sort((a, b) => a - b);
  return long > STACKED * short ? "stacked" : "ghosted";
}

/** Microseconds of a load that is long beside the rest of a busy recording, or 0. */
export function longLoad(recordings, length) {
  const load = Math.min(...recordings.map(({ facts }) => facts.load ?? 0));
  const isBusy = recordings.some(({ deviceEvents }) => deviceEvents > MANY);
  return isBusy && load > LONG_LOAD * length ? load : 0;
}
