// From a dropped file to its findings, and to the columns from which the timeline is drawn.
import { extentOf, isOnDevice } from "../../race/browser/bubbles.js";
import { eventsOf } from "./events.js";
import { find } from "./findings.js";
import { Host } from "./host.js";
import { Damaged, readTrace } from "./json.js";
import { FUNCTION, OVERHEAD, Rows } from "./rows.js";

/** Returns the findings of a file as `debubble trace --json` writes them, and `state`, the data of
 * the timeline's widget. Throws Damaged for a file that can't be read. */
export async function analyze(file, progress = () => {}) {
  const rows = new Rows();
  const header = await readTrace(file, (event) => rows.add(event), progress);
  if (header.otherData?.["written by"] === "debubble") {
    throw new Damaged("debubble itself wrote it for a viewer, so open the timeline that it was made from");
  }
  if (!rows.category.length) throw new Damaged("it has no operators, calls or kernels of torch.profiler");
  const host = new Host(rows), trace = eventsOf(rows, host);
  const found = find(trace, host);
  const work = trace.events.filter(isOnDevice), extent = extentOf(work);
  const span = extent.end - extent.start;
  const total = [...found.causes.values()].reduce((sum, us) => sum + us, 0);
  const unknown = found.causes.get(FACTS.causes.unseen) ?? 0;
  const summary = {
    label: `measured on ${descriptionOf(header, trace.device)}`,
    counts: countsOf(trace.events),
    span_us: span,
    busy_us: span - total,
    idle_us: total - unknown,
    not_known_us: unknown,
    idle_by_cause_us: Object.fromEntries(found.causes),
    places: found.places.map(({ cause, line, operator, us, times }) => {
      const { code, ...source } = line === null ? NO_LINE : host.line(line);
      return { cause, operator, idle_us: us, times, ...source };
    }),
    notes: notesOf(rows, trace, work, found.bare),
  };
  return { ...summary, state: stateOf(summary, trace.events, found.bubbles, host) };
}

const NO_LINE = { file: null, line: null, function: null, place: null };

function countsOf(events) {
  const count = (wanted) => events.filter(wanted).length;
  return Object.fromEntries(Object.keys(FACTS.palette.counts).map((name) => {
    const kind = { host_syncs: "sync", kernels: "kernel", graph_launches: "graph_launch" }[name];
    return [name, count((event) => (kind ? event.kind === kind : event.copyKind === name))];
  }));
}

function descriptionOf({ deviceProperties }, device) {
  if (device < 0) return "a host without a GPU";
  const named = Array.isArray(deviceProperties) ? deviceProperties.filter((each) => each?.name) : [];
  const own = named.filter(({ id }) => id === device);
  const names = new Set((own.length ? own : named).map(({ name }) => String(name).slice(0, 200)));
  return names.size === 1 ? [...names][0] : "a GPU";
}

/** Sentences that a reader has to know before using the figures. */
function notesOf(rows, { lost, device, devices }, work, bare) {
  const notes = [];
  const note = (name, values = {}) => notes.push(FACTS.notes[name].replace(/\{(\w+)[^}]*\}/g, (_, key) => values[key]));
  const inWords = (number) => number.toLocaleString("en");
  if (lost) note("lost", { count: inWords(lost) });
  if (!work.length) note("no_gpu");
  if (bare) note("bare_graphs", { count: inWords(bare) });
  note(rows.category.includes(FUNCTION) ? "stacks" : "no_stacks");
  if (devices.length > 1) note("other_gpus", { device, others: devices.filter((each) => each !== device).join(", ") });
  const overhead = rows.of(OVERHEAD).reduce((sum, row) => sum + rows.duration[row], 0);
  if (overhead) note("overhead", { ms: (overhead / 1000).toFixed(2) });
  return notes;
}

/** The events and bubbles as bytes, column after column, as debubble/views/timeline/packing.py. */
function stateOf(summary, events, bubbles, host) {
  const names = new Numbers(), lines = new Numbers(), kinds = FACTS.palette.kinds.map(({ key }) => key);
  const lanes = [...new Set(events.map(({ lane }) => lane))].sort((a, b) => laneOrder(a) - laneOrder(b)).slice(0, FACTS.most_lanes);
  const lineOf = (event) => (event.line === null ? -1 : lines.of(event.line));
  const orNone = (index) => index ?? -1;
  const laneNumbers = new Map(lanes.map((lane, number) => [lane, number]));
  const packed = pack(FACTS.layout.events, events, {
    start: ({ start }) => start,
    duration: ({ duration }) => duration,
    bytes: ({ bytes = 0 }) => bytes,
    name: ({ name }) => names.of(name),
    source: lineOf,
    launched_by: ({ launchedBy }) => orNone(launchedBy),
    kind: ({ kind, copyKind }) => kinds.indexOf(copyKind ?? kind),
    lane: ({ lane }) => laneNumbers.get(lane) ?? FACTS.most_lanes - 1,
  });
  const causes = FACTS.palette.causes.map(({ words }) => words);
  const idle = pack(FACTS.layout.bubbles, bubbles, {
    start: ({ start }) => start,
    duration: ({ start, end }) => end - start,
    source: lineOf,
    cause: ({ cause }) => causes.indexOf(cause),
  });
  const sums = causes.map(() => 0);
  for (const { cause, start, end } of bubbles) sums[causes.indexOf(cause)] += (end - start) / summary.span_us;
  const { start, end } = extentOf(events);
  const after = {
    label: summary.label,
    modelled: false,
    counts: summary.counts,
    events: events.length,
    bubbles: bubbles.length,
    lanes,
    names: names.values,
    sources: lines.values.map((name) => [host.line(name).place, host.line(name).code]),
    length: end - start,
    load: 0,
    span: summary.span_us,
    idle_by_cause: sums,
  };
  const facts = { revision: 1, layout: FACTS.layout, palette: FACTS.palette, after, before: null, axis: 0 };
  const none = new DataView(new ArrayBuffer(0));
  return { facts, events: packed, bubbles: idle, ghost_events: none, ghost_bubbles: none };
}

const laneOrder = (lane) => (lane === "host" ? -1 : Number(lane.split(" ")[1]));

/** Values, each once, by the numbers that stand for them. */
class Numbers {
  constructor() {
    [this.values, this.known] = [[], new Map()];
  }

  of(value) {
    if (!this.known.has(value)) this.known.set(value, this.values.push(value) - 1);
    return this.known.get(value);
  }
}

const WRITERS = { "<f8": Float64Array, "<f4": Float32Array, "<i4": Int32Array, u1: Uint8Array };

function pack(layout, items, read) {
  const made = layout.map(([name, type]) => new Uint8Array(WRITERS[type].from(items, read[name]).buffer));
  const whole = new Uint8Array(made.reduce((sum, { length }) => sum + length, 0));
  made.reduce((at, bytes) => (whole.set(bytes, at), at + bytes.length), 0);
  return new DataView(whole.buffer);
}
