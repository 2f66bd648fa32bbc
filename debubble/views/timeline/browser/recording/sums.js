// Sums of a recording between two moments.

/** kinds and causes: [index, how many touch the area, microseconds of them within it]. Events at
 * the area's ends count with what lies in it. `computing` and `idle` are the device's microseconds. */
export function sums(recording, start, end) {
  const within = (from, to) => Math.max(Math.min(to, end) - Math.max(from, start), 0);
  const kinds = recording.kinds.map((_, index) => [index, 0, 0]);
  let first = Infinity, last = -Infinity;
  recording.lanes.forEach((lane, number) => {
    if (!lane) return;
    if (recording.laneNames[number] !== "host") {
      first = Math.min(first, lane.starts[0]);
      last = Math.max(last, lane.reach[lane.reach.length - 1]);
    }
    for (let i = 0; i < lane.starts.length && lane.starts[i] <= end; i++) {
      if (lane.ends[i] < start) continue;
      const sum = kinds[lane.kinds[i]];
      sum[1] += 1;
      sum[2] += within(lane.starts[i], lane.ends[i]);
    }
  });
  const causes = recording.causes.map((_, index) => [index, 0, 0]);
  const { start: starts, reach, cause } = recording.bubbles;
  for (let i = 0; i < starts.length && starts[i] < end; i++) {
    if (reach[i] <= start) continue;
    causes[cause[i]][1] += 1;
    causes[cause[i]][2] += within(starts[i], reach[i]);
  }
  const idle = causes.reduce((sum, [, , us]) => sum + us, 0);
  const computing = Math.max(within(first, last) - idle, 0);
  const seen = ([, number]) => number > 0;
  return { kinds: kinds.filter(seen), causes: causes.filter(seen), idle, computing };
}
