// Idle time by cause and place, by the rules of debubble/traces/findings.py.
import { endOf, extentOf, findBubbles, isOnDevice, SMALLEST_GAP } from "../../race/browser/bubbles.js";
import { upper } from "../../timeline/browser/recording/columns.js";
import { OUTSIDE } from "./host.js";
import { NONE } from "./rows.js";

const { after_wait: AFTER_WAIT, copy: COPY_CAUSE, stream: STREAM, gap: GAP, unseen: UNSEEN, other: OTHER, host: OF_HOST } = FACTS.causes;
const MERGED = 0.01;

/** {bubbles, causes, places, bare}: microseconds of each cause, and places with the longest first. */
export function find(trace, host) {
  const { events } = trace;
  const bubbles = findBubbles(events), unseen = graphsWithoutKernels(events);
  const laneBefore = lanesByEnd(events), lost = waitsOf(events);
  const onItsWay = Math.min(FACTS.causes.longest_handover, FACTS.causes.slow * usualLatency(events));
  const causes = new Map(), places = new Map();
  let last = null;
  for (const bubble of bubbles) {
    for (const whole of partsOf(bubble, trace, host, lost, laneBefore, onItsWay)) {
      for (const { cause, line, operator, start, end } of cutBy(whole, unseen.stretches)) {
        const key = `${cause} ${line} ${operator}`;
        if (!places.has(key)) places.set(key, { cause, line, operator, us: 0, times: 0 });
        const place = places.get(key);
        place.us += end - start;
        const follows = last?.key === key && Math.abs(start - last.end) < SMALLEST_GAP;
        place.times += follows ? 0 : 1;
        last = { key, end };
        causes.set(cause, (causes.get(cause) ?? 0) + end - start);
      }
    }
  }
  const sorted = [...places.values()].sort((a, b) => b.us - a.us);
  return { bubbles, causes, places: sorted, bare: unseen.bare };
}

function* partsOf(bubble, trace, host, lost, laneBefore, onItsWay) {
  const { start, end, cause, held, line } = bubble, { events } = trace;
  const launch = events[bubble.next.launchedBy];
  const operator = launch?.operator ?? bubble.next.name;
  const part = { start, end, line };
  if (cause === "waiting for a copy") yield { ...part, cause: COPY_CAUSE, operator: held?.name ?? null };
  else if (cause === "waiting for a kernel") yield { ...part, line: null, cause: GAP, operator: null };
  else if (cause === "other" && !(launch && end - endOf(launch) <= onItsWay)) {
    const crossed = end - start <= FACTS.causes.longest_handover && laneBefore(start) !== bubble.next.lane;
    yield { ...part, cause: crossed ? STREAM : OTHER, operator };
  }
  else if (!launch) yield { ...part, cause: OF_HOST[OUTSIDE], operator };
  else {
    const waited = held ? Math.min(end, start + lost.get(held)) : start;
    if (held) yield { ...part, end: waited, line: held.line, cause: AFTER_WAIT, operator: held.operator ?? held.name };
    const launched = Math.min(Math.max(waited, endOf(launch)), end);
    yield* partsOfHost(trace, host, launch, waited, launched, end, operator);
  }
}

/** Idle time by what the launching thread did in it. Time after it had launched counts as launching. */
function* partsOfHost({ origin }, host, launch, start, launched, end, operator) {
  const times = new Map(), add = (doing, us) => times.set(doing, (times.get(doing) ?? 0) + us);
  for (const [us, doing] of host.stretches(host.tracks[launch.row], start + origin, launched + origin)) add(doing, us);
  if (end > launched) add(host.ofCall.get(launch.row), end - launched);
  for (const [doing, us] of times) {
    const named = host.operator(doing);
    const line = doing.line === NONE ? null : doing.line;
    const place = line === null && named === null ? `before ${operator}` : named;
    yield { start, end: start + us, cause: OF_HOST[doing.kind], line, operator: place };
    start += us;
  }
}

/** The microseconds that the host lost in each wait, with the call of the copy that it follows. */
function waitsOf(events) {
  const previous = new Map(), lost = new Map();
  for (const event of events.filter(({ lane }) => lane === "host")) {
    const before = previous.get(event.thread);
    const isOne = before?.operator && before.operator === event.operator && before.line === event.line;
    if (event.kind === "sync") lost.set(event, endOf(event) - (isOne ? before : event).start);
    previous.set(event.thread, event);
  }
  return lost;
}

/** The median of the microseconds from a launch to its work on a stream that is idle. */
function usualLatency(events) {
  const lastOf = new Map(), found = [];
  for (const event of events.filter(isOnDevice).sort((a, b) => a.start - b.start)) {
    const launched = events[event.launchedBy]?.start;
    if (lastOf.get(event.lane) < launched) found.push(event.start - launched);
    lastOf.set(event.lane, endOf(event));
  }
  found.sort((a, b) => a - b);
  const [below, above] = [found[(found.length - 1) >> 1], found[found.length >> 1]];
  return found.length ? Math.max(0, (below + above) / 2) : 0;
}

/** The lane of the last device event that ended before a time. */
function lanesByEnd(events) {
  const work = events.filter(isOnDevice).sort((a, b) => a.start - b.start);
  work.sort((a, b) => endOf(a) - endOf(b));
  const ends = work.map(endOf);
  return (time) => work[upper(ends, time + MERGED) - 1]?.lane ?? null;
}

/** The stretches in which a graph may run whose kernels the trace lacks, and how many there are. */
function graphsWithoutKernels(events) {
  const withWork = new Set(events.map(({ launchedBy }) => launchedBy));
  const bare = events.filter(({ kind }, index) => kind === "graph_launch" && !withWork.has(index));
  const stretches = [];
  if (!bare.length) return { bare: 0, stretches };
  const waits = events.filter(({ kind }) => kind === "sync").map(endOf);
  const edges = [...waits, ...events.filter(isOnDevice).map(({ start }) => start)].sort((a, b) => a - b);
  const whole = extentOf(events);
  for (const launch of bare) {
    const end = edges[upper(edges, launch.start)] ?? whole.end - whole.start;
    const start = Math.max(launch.start, stretches.at(-1)?.end ?? launch.start);
    if (end > start) stretches.push({ start, end });
  }
  return { bare: bare.length, stretches };
}

/** A part in pieces: those in which a graph may have run have no known cause. */
function* cutBy(part, unseen) {
  for (const stretch of unseen) {
    if (stretch.start >= part.end) break;
    const start = Math.max(stretch.start, part.start), end = Math.min(stretch.end, part.end);
    if (end <= start) continue;
    if (start > part.start) yield { ...part, end: start };
    yield { ...part, start, end, cause: UNSEEN };
    part = { ...part, start: end };
  }
  if (part.end > part.start) yield part;
}
