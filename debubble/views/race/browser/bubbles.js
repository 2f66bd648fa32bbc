// Finds the bubbles of a run, by the rules of debubble/timeline/bubbles.py.

const LAUNCH_GAP = 10;
const CLOCK_SLACK = 5;
export const SMALLEST_GAP = 0.005;
const ON_HOST = "host", ON_THE_HOST = "waiting for the host";
const HOLDING = ["sync", "python", "compile", "alloc"];

export const endOf = (event) => event.start + event.duration;
export const isOnDevice = (event) => event.lane !== ON_HOST;
const byStart = (a, b) => a.start - b.start;

/** The first start and the last end of events, or 0 and 0 for none. */
export function extentOf(events) {
  if (!events.length) return { start: 0, end: 0 };
  const start = events.reduce((least, event) => Math.min(least, event.start), Infinity);
  return { start, end: events.reduce((most, event) => Math.max(most, endOf(event)), -Infinity) };
}

/** The gaps in which no kernel runs, in order: {start, end, cause, line, next, held}. `held` is the
 * wait that held the host, or the copy that was waited for. */
export function findBubbles(events) {
  const device = events.filter(isOnDevice).sort(byStart);
  if (!device.length) return [];
  const computes = device.filter(({ kind }) => kind !== "copy");
  const lastCompute = computes.reduce((last, event) => Math.max(last, endOf(event)), device[0].start);
  const isWaitedFor = (event) => event.kind === "copy" && endOf(event) <= lastCompute;
  const copies = device.filter(isWaitedFor);
  const work = device.filter((event) => !isWaitedFor(event));
  const firsts = firstOfEachLaunch(device), waits = waitsOfThreads(events);
  const bubbles = [];
  let running = [], ahead = 0;
  for (const gap of findGaps(device[0].start, work)) {
    while (ahead < copies.length && copies[ahead].start < gap.end) running.push(copies[ahead++]);
    running = running.filter((copy) => endOf(copy) > gap.start);
    const { next } = gap;
    const launch = firsts.get(next.launchedBy)?.start >= gap.start ? events[next.launchedBy] : null;
    for (const { copy, ...part } of splitGap(gap, launch, running)) {
      const held = copy ?? (part.cause === ON_THE_HOST && launch ? waitBefore(launch, gap, waits) : null);
      const late = part.cause === ON_THE_HOST ? launch?.line : null;
      bubbles.push({ ...part, next, held, line: copy ? copy.line : held?.line ?? late ?? next.line });
    }
  }
  return bubbles;
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
    add(reached, late, ON_THE_HOST);
    add(late, start, start - late <= LAUNCH_GAP ? "waiting for a kernel" : "other");
    add(start, end, "waiting for a copy", copy);
    reached = Math.max(reached, end);
  }
  return parts;
}

/** What holds the next launch of each thread, besides the calls themselves, in the order of starts. */
function waitsOfThreads(events) {
  const waits = new Map();
  for (const event of events.filter(({ kind }) => HOLDING.includes(kind)).sort(byStart)) {
    if (!waits.has(event.thread)) waits.set(event.thread, []);
    waits.get(event.thread).push(event);
  }
  return waits;
}

/** The last wait before a launch, or null if it had ended before the gap. */
function waitBefore(launch, gap, waits) {
  const mine = waits.get(launch.thread) ?? [];
  let low = 0, high = mine.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (mine[middle].start < launch.start) low = middle + 1;
    else high = middle;
  }
  const before = mine[low - 1];
  return before && endOf(before) > gap.start - CLOCK_SLACK ? before : null;
}
