// Finds the bubbles of a run, by the rules of debubble/timeline/bubbles.py.

const LAUNCH_GAP = 10;
const CLOCK_SLACK = 5;
const SMALLEST_GAP = 0.005;
const ON_HOST = "host";

export const endOf = (event) => event.start + event.duration;
const isOnDevice = (event) => event.lane !== ON_HOST;
const byStart = (a, b) => a.start - b.start;

/** The gaps in which no kernel runs, in order: {start, end, cause, line, next}. */
export function findBubbles(events) {
  const device = events.filter(isOnDevice).sort(byStart);
  if (!device.length) return [];
  const kernels = device.filter(({ kind }) => kind === "kernel");
  const lastCompute = Math.max(device[0].start, ...kernels.map(endOf));
  const isWaitedFor = (event) => event.kind === "copy" && endOf(event) <= lastCompute;
  const copies = device.filter(isWaitedFor);
  const work = device.filter((event) => !isWaitedFor(event));
  const firsts = firstOfEachLaunch(device);
  const syncs = events.filter(({ kind }) => kind === "sync" || kind === "python").sort(byStart);
  return findGaps(device[0].start, work).flatMap((gap) => {
    const { launchedBy } = gap.next;
    const launch = firsts.get(launchedBy) === gap.next ? events[launchedBy] : null;
    const running = copies.filter((copy) => copy.start < gap.end && endOf(copy) > gap.start);
    return splitGap(gap, launch, running).map((part) => ({ ...part, next: gap.next, line: lineOf(part, gap, launch, syncs) }));
  });
}

/** A graph launch starts many kernels: only the first of them waits for the call. */
function firstOfEachLaunch(device) {
  const firsts = new Map();
  for (const event of device) {
    if (event.launchedBy !== null && !firsts.has(event.launchedBy)) firsts.set(event.launchedBy, event);
  }
  return firsts;
}

function findGaps(from, work) {
  const gaps = [];
  let reached = from;
  for (const event of work) {
    if (event.start - reached > SMALLEST_GAP) gaps.push({ start: reached, end: event.start, next: event });
    reached = Math.max(reached, endOf(event));
  }
  return gaps;
}

/** Splits a gap by cause: at the end of the launch, and at the copies in it. */
function splitGap(gap, launch, copies) {
  const launched = launch ? Math.min(Math.max(endOf(launch), gap.start), gap.end) : gap.start;
  const held = copies
    .map((copy) => {
      const from = copy.lane === gap.next.lane ? gap.start : launched;
      return { start: Math.max(copy.start, from), end: Math.min(endOf(copy), gap.end), copy };
    })
    .filter(({ start, end }) => end - start > SMALLEST_GAP)
    .sort(byStart);
  const parts = [];
  const add = (start, end, cause, copy = null) => {
    if (end - start > SMALLEST_GAP) parts.push({ start, end, cause, copy });
  };
  let reached = gap.start;
  for (const { start: begins, end, copy } of [...held, { start: gap.end, end: gap.end, copy: null }]) {
    const start = Math.max(begins, reached);
    let late = Math.min(Math.max(launched, reached), start);
    if (late - reached > SMALLEST_GAP && start - late <= LAUNCH_GAP) late = start;
    add(reached, late, "waiting for the host");
    add(late, start, start - late <= LAUNCH_GAP ? "waiting for a kernel" : "other");
    add(start, end, "waiting for a copy", copy);
    reached = Math.max(reached, end);
  }
  return parts;
}

/** The line to look at: of the copy, of the wait that held the host, or of the late launch. */
function lineOf({ cause, copy }, gap, launch, syncs) {
  if (copy) return copy.line;
  if (cause !== "waiting for the host" || !launch) return gap.next.line;
  const before = syncs.filter(({ start }) => start < launch.start).at(-1);
  return before && endOf(before) > gap.start - CLOCK_SLACK ? before.line : launch.line;
}
