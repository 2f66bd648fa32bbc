// What host, queue and device do at one moment of a recording.
import { lower, upper } from "./columns.js";

const MOST_QUEUED = 400;

/** Returns {host, queued, more, device, bubble}: the host's event or -1, the events that wait for
 * the device, how many others wait, the events that run on it, and the bubble's index or -1. */
export function momentOf(recording, moment) {
  const running = [], queued = [];
  let host = -1, more = 0;
  recording.lanes.forEach((lane, number) => {
    if (!lane) return;
    const isHost = recording.laneNames[number] === "host";
    const next = upper(lane.starts, moment);
    for (let i = next - 1; i >= 0 && lane.reach[i] > moment; i--) {
      if (lane.ends[i] <= moment) continue;
      if (!isHost) running.push(lane.index[i]);
      else if (host < 0) host = lane.index[i];
    }
    // What was launched last waits longest: the first that is not launched yet ends the queue.
    for (let i = next; !isHost && i < lane.starts.length; i++) {
      const launch = recording.launched_by[lane.index[i]];
      if (launch < 0 || recording.start[launch] + recording.duration[launch] > moment) break;
      if (queued.length < MOST_QUEUED) queued.push(lane.index[i]);
      else more += 1;
    }
  });
  const { start, reach } = recording.bubbles;
  const at = lower(reach, moment + 1e-6);
  const bubble = at < start.length && start[at] <= moment ? at : -1;
  queued.sort((a, b) => recording.start[a] - recording.start[b]);
  return { host, queued, more, running, bubble };
}
