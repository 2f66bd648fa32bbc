// The figures of a run, in words.
import { endOf } from "./bubbles.js";
import { mainCause } from "./causes.js";

// What holds the host, by the kind of its event. It copies the bytes of a pageable upload itself.
const HOLDS = { sync: "wait", python: "python", h2d_pageable: "wait" };
const CAUSE_OF = { "waiting for the host": "launch", "waiting for a copy": "copy", other: "other" };
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
    uploads: device.filter(({ copyKind }) => copyKind?.startsWith("h2d")).reduce((sum, { bytes }) => sum + bytes, 0),
    idle: device.length ? idle / (to - from) : 1,
    waits: events.filter(({ kind }) => kind === "sync").length,
    launches: events.filter(({ kind }) => kind === "launch" || kind === "graph_launch").length,
    byLine: idleByLine(events, bubbles),
  };
}

/** Sums the idle time that each line causes, the longest first: {line, total, causes}. The small gap
 * between two kernels is no line's fault, so it counts for none. */
function idleByLine(events, bubbles) {
  const found = new Map();
  const add = (line, cause, microseconds) => {
    const sum = found.get(line) ?? { line, total: 0, causes: {} };
    sum.total += microseconds;
    sum.causes[cause] = (sum.causes[cause] ?? 0) + microseconds;
    found.set(line, sum);
  };
  const holds = holdsOf(events);
  for (const { start, end, cause, next, line } of bubbles) {
    if (cause === "waiting for a kernel") continue;
    const isLate = cause === "waiting for the host";
    const rest = isLate ? charge(holds, events[next.launchedBy], end - start, add) : end - start;
    if (rest > 0) add(isLate ? next.line : line, CAUSE_OF[cause], rest);
  }
  return [...found.values()].sort((a, b) => b.total - a.total);
}

/** What holds the host, in order, with the microseconds that each can be charged with: a wait of 50 µs
 * makes all launches after it at most 50 µs late. */
function holdsOf(events) {
  return events.flatMap(({ kind, name, line, start, duration }) => {
    const cause = HOLDS[kind === "launch" ? name : kind];
    return cause ? [{ line, start, cause, left: duration }] : [];
  });
}

/** Charges the idle time before a late launch to what held the host before, the last of them first.
 * Returns the microseconds that are left for the launch itself. */
function charge(holds, launch, idle, add) {
  let rest = idle;
  for (let index = countBefore(holds, launch.start) - 1; index >= 0 && rest > 0; index -= 1) {
    const hold = holds[index], part = Math.min(rest, hold.left);
    if (part > 0) add(hold.line, hold.cause, part);
    hold.left -= part;
    rest -= part;
  }
  return rest;
}

function countBefore(holds, time) {
  const after = holds.findIndex(({ start }) => start >= time);
  return after < 0 ? holds.length : after;
}

export function inTime(microseconds) {
  if (microseconds >= 10_000) return `${(microseconds / 1000).toFixed(1)} ms`;
  return microseconds < 10 ? `${microseconds.toFixed(1)} µs` : `${Math.round(microseconds)} µs`;
}

export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** A run's figures for who can't see them: `sums` is null if there was no run. */
export function inShort(name, sums) {
  return sums ? `${name}: ${inTime(sums.length)}, GPU idle ${Math.round(100 * sums.idle)} percent` : `${name}: no run`;
}

/** Names the line that keeps the GPU idle for the longest time, and says why. */
export function worstLine({ byLine, idle }, text) {
  const worst = byLine[0];
  if (!worst || worst.total < LEAST) return `No line keeps the GPU idle for ${LEAST} µs or more${idle >= 0.01 ? ": its idle time is short gaps" : ""}.`;
  const words = codeOf(worst.line, text);
  return { words, line: worst.line, rest: ` keeps the GPU idle for ${inTime(worst.total)}${mainCause(worst).why}` };
}

/** Returns the lines that keep the GPU idle for at least half as long as the worst one does. */
export function guiltyLines({ byLine }) {
  const [worst] = byLine;
  if (!worst || worst.total < LEAST) return [];
  return byLine.filter(({ total }) => total >= worst.total / 2).map(({ line }) => line);
}

export const codeOf = (line, text) => text.split("\n")[line - 1].replace(/#.*/, "").trim();
