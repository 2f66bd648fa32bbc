// The figures of a run, in words.
import { endOf } from "./bubbles.js";

const OTHER_WORK = 0.05; // share of the time in kernels that two programs with the same work may differ by
const LEAST = 5; // microseconds of idle time that are worth a sentence

/** The run's length, its idle share, its waits, and its bubbles by line, the longest first. */
export function sumUpRun({ events, bubbles }) {
  const device = events.filter(({ lane }) => lane !== "host");
  const length = Math.max(...events.map(endOf));
  const from = Math.min(...device.map(({ start }) => start)), to = Math.max(...device.map(endOf));
  const idle = bubbles.reduce((sum, { start, end }) => sum + end - start, 0);
  const kernels = device.filter(({ kind }) => kind === "kernel");
  return {
    length,
    busy: kernels.reduce((sum, { duration }) => sum + duration, 0),
    idle: device.length ? idle / (to - from) : 1,
    waits: events.filter(({ kind }) => kind === "sync").length,
    launches: events.filter(({ kind }) => kind === "launch" || kind === "graph_launch").length,
    byLine: idleByLine(bubbles),
  };
}

/** The small gap between two kernels is no line's fault, so it counts for none. */
function idleByLine(bubbles) {
  const found = new Map();
  for (const { start, end, line, cause } of bubbles) {
    if (cause === "waiting for a kernel") continue;
    const sum = found.get(line) ?? { line, total: 0, causes: {} };
    sum.total += end - start;
    sum.causes[cause] = (sum.causes[cause] ?? 0) + end - start;
    found.set(line, sum);
  }
  return [...found.values()].sort((a, b) => b.total - a.total);
}

export function inTime(microseconds) {
  if (microseconds >= 10_000) return `${(microseconds / 1000).toFixed(1)} ms`;
  return microseconds < 10 ? `${microseconds.toFixed(1)} µs` : `${Math.round(microseconds)} µs`;
}

export const counted = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

/** Says who wins, by how much, and if one of them was given less to compute. */
export function verdict([before, after]) {
  if (!before || !after) return "";
  const most = Math.max(before.busy, after.busy), least = Math.min(before.busy, after.busy);
  const same = most - least <= OTHER_WORK * most;
  return winner(before, after) + (same ? "" : ` Their work differs: kernels of ${inTime(before.busy)} and of ${inTime(after.busy)}.`);
}

function winner(before, after) {
  const [fast, slow] = before.length < after.length ? [before, after] : [after, before];
  const times = slow.length / fast.length;
  if (times < 1.01) return `Both programs take ${inTime(fast.length)}.`;
  const name = fast === after ? "After" : "Before";
  const howMuch = times < 10 ? times.toFixed(1) : Math.round(times).toLocaleString("en");
  return `${name} is done ${howMuch} times as fast: ${inTime(fast.length)} instead of ${inTime(slow.length)}.`;
}

/** Names the line that keeps the GPU idle for longest. */
export function worstLine({ byLine }, text) {
  const worst = byLine[0];
  if (!worst || worst.total < LEAST) return "No line keeps the GPU idle for long.";
  const [cause] = Object.entries(worst.causes).sort(([, a], [, b]) => b - a)[0];
  const words = text.split("\n")[worst.line - 1].replace(/#.*/, "").trim();
  return {
    words,
    line: worst.line,
    rest: ` makes the GPU idle for ${inTime(worst.total)}, mostly ${cause}.`,
  };
}
