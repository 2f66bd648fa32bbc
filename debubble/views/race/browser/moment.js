// What host, queue and device do at one moment.
import { endOf } from "./bubbles.js";

const COMPUTES = { mm: "multiplies matrices", "add.Tensor": "runs a small kernel", sleep: "runs a long kernel" };
const ASKS = {
  mm: "launches matmul", "add.Tensor": "launches a kernel", sleep: "launches sleep",
  h2d_pinned: "asks for an upload", h2d_pageable: "asks for an upload", d2h: "asks for a download",
};
const MOVES = { h2d_pinned: "uploads", h2d_pageable: "uploads", d2h: "downloads" };
const IDLES = {
  "waiting for the host": "idles: nothing is queued",
  "waiting for a copy": "computes nothing: it waits for a copy",
  "waiting for a kernel": "goes to its next kernel",
  other: "idles",
};

/** Returns {host, queue, device}: host and device as {words, lines, state}, queue as events. */
export function momentOf({ events, bubbles }, now) {
  const running = events.filter((event) => event.start <= now && now < endOf(event));
  return {
    host: hostAt(events, running, now),
    queue: events.filter((event) => event.launchedBy !== null && now < event.start && endOf(events[event.launchedBy]) <= now),
    device: deviceAt(events, bubbles, running, now),
  };
}

function hostAt(events, running, now) {
  const call = running.find(({ lane }) => lane === "host");
  if (!call) {
    const isDone = !events.some((event) => event.lane === "host" && event.start > now);
    return { words: isDone ? "is done" : "runs Python", lines: [], state: isDone ? "done" : "busy" };
  }
  const words = {
    launch: ASKS[call.name], graph_launch: "launches the graph", python: "runs your Python",
    sync: "waits for the GPU",
  };
  return { words: words[call.kind], lines: [call.line], state: call.kind === "sync" ? "waits" : "busy" };
}

function deviceAt(events, bubbles, running, now) {
  const work = running.filter(({ lane }) => lane !== "host");
  const bubble = bubbles.find(({ start, end }) => start <= now && now < end);
  if (bubble && !work.length) return { words: IDLES[bubble.cause], lines: [], state: "waits", bubble };
  if (bubble) return { words: IDLES[bubble.cause], lines: work.map(({ line }) => line), state: "waits", bubble };
  if (work.length) {
    const words = [...new Set(work.map(({ kind, name }) => (kind === "copy" ? MOVES : COMPUTES)[name]))];
    return { words: words.join(" and "), lines: work.map(({ line }) => line), state: "busy" };
  }
  const later = events.some(({ lane, start }) => lane !== "host" && start > now);
  return { words: later ? "idles: nothing is queued yet" : "is done", lines: [], state: later ? "waits" : "done" };
}

/** Returns {time, words}: the first wait of the line `line`, or else the first long bubble, and what is
 * there. The time is undefined for a run without bubbles. */
export function tellingMoment(run, line) {
  if (!run?.bubbles.length) return { words: "" };
  const wait = run.events.find((event) => event.kind === "sync" && event.line === line);
  if (wait) return { time: middleOf(wait.start, endOf(wait)), words: `The marker is at the first wait of line ${line} of Before.` };
  const longest = Math.max(...run.bubbles.map(({ start, end }) => end - start));
  const { start, end } = run.bubbles.find((bubble) => bubble.end - bubble.start >= longest / 2);
  return { time: middleOf(start, end), words: "The marker is in the first long bubble of Before." };
}

const middleOf = (start, end) => (start + end) / 2;

/** The moments at which something begins or ends, in order. */
export function changes(runs) {
  const times = runs.flatMap((run) => (run ? run.events.flatMap((event) => [event.start, endOf(event)]) : []));
  return [...new Set(times.map((time) => Math.round(time * 1000) / 1000))].sort((a, b) => a - b);
}
