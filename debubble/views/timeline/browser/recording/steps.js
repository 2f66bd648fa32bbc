// The named steps of a recording: when the host works on each, and when the device does.

/** Returns each step as {name, host: [start, end], device: [start, end] or null}, by the host's
 * start; times in microseconds from the first event. */
export function stepsOf(recording, rows, first) {
  const steps = rows
    .map(([name, start, end]) => ({ name, host: [start - first, end - first], device: null }))
    .sort((a, b) => a.host[0] - b.host[0]);
  if (!steps.length) return steps;
  const { start, duration, launched_by: launchedBy } = recording;
  for (let i = 0; i < start.length; i++) {
    if (launchedBy[i] < 0) continue;
    const step = stepAt(steps, start[launchedBy[i]]);
    if (!step) continue;
    const [from, to] = step.device ?? [Infinity, -Infinity];
    step.device = [Math.min(from, start[i]), Math.max(to, start[i] + duration[i])];
  }
  return steps;
}

/** The innermost step in which the host is at a moment, or undefined. */
export function stepAt(steps, moment) {
  let low = 0, high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle].host[0] <= moment) low = middle + 1;
    else high = middle;
  }
  for (let i = low - 1; i >= Math.max(low - 8, 0); i--) if (moment <= steps[i].host[1]) return steps[i];
  return undefined;
}
