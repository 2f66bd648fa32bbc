// The rules of time, as debubble/clock has them: a host, streams, copy engines and a queue. All times
// are modelled microseconds, from the constants of one calibration.

const MOST_QUEUED = 1024; // launches in the device's queue
const TAKEN_OVER_AT_ONCE = 2 << 20; // bytes of the largest pageable upload that waits for no stream
const ENGINES = { h2d_pinned: "in", h2d_pageable: "in", d2h: "out" };

/** Runs one copy at a time, each as soon as its stream reaches it. */
class CopyEngine {
  constructor() {
    this.busy = []; // [start, end] of each copy in flight or pending, in order of time
  }

  book(earliest, duration, now) {
    this.busy = this.busy.filter(([, end]) => end > now);
    let at = earliest;
    for (const [start, end] of this.busy) {
      if (at + duration <= start) break;
      at = Math.max(at, end);
    }
    const after = this.busy.findIndex(([start]) => start > at);
    this.busy.splice(after < 0 ? this.busy.length : after, 0, [at, at + duration]);
    return at;
  }
}

/** One host and one device. It notes an event for each call, kernel, copy and wait. */
export class Machine {
  constructor(cost) {
    this.cost = cost;
    this.now = 0;
    this.events = [];
    this.ends = [0]; // of each stream: when its last work ends
    this.lanes = { 0: 0 }; // streams are counted in the order of their first work
    this.marks = new Map(); // of each event: the time before which its stream's work ends
    this.starts = [];
    this.engines = { in: new CopyEngine(), out: new CopyEngine() };
  }

  // ---- the host

  note(kind, name, lane, start, duration, line, more = {}) {
    this.events.push({ kind, name, lane, start, duration, line, copyKind: null, launchedBy: null, ...more });
    return this.events.length - 1;
  }

  operator() {
    this.now += this.cost.op_us;
  }

  python(microseconds, line) {
    if (microseconds) this.note("python", "your Python", "host", this.now, microseconds, line);
    this.now += microseconds;
  }

  hostWaits(name, until, line) {
    const start = this.now;
    this.now = Math.max(this.now, until) + this.cost.sync_us;
    this.note("sync", name, "host", start, this.now - start, line);
  }

  synchronize(line) {
    this.hostWaits("device synchronize", Math.max(...this.ends.filter(Number.isFinite)), line);
  }

  streamSynchronize(stream, line) {
    this.hostWaits("stream synchronize", this.endOf(stream), line);
  }

  // ---- work

  launch(action, stream, line) {
    const start = this.now;
    this.now = Math.max(this.now, this.hasRoomAt()) + this.callOf(action);
    const launch = this.note("launch", action.name, "host", start, this.now - start, line);
    this.queue(action, stream, line, launch);
  }

  replay(actions, stream, line) {
    const start = this.now;
    this.now += this.cost.graph_launch_us;
    const launch = this.note("graph_launch", "graph launch", "host", start, this.now - start, line);
    actions.forEach((action, at) => this.queue(action, stream, action.line, launch, at > 0));
  }

  queue(action, stream, line, launchedBy, inGraph = false) {
    const { start_latency_us: latency, gap_us, graph_gap_us } = this.cost;
    const gap = inGraph ? graph_gap_us : gap_us;
    const duration = this.durationOf(action);
    let start = Math.max(this.now + latency, this.endOf(stream) + gap);
    const engine = this.engines[ENGINES[action.copyKind]];
    if (engine) start = engine.book(start, duration, this.now);
    this.ends[stream] = start + duration;
    this.starts.push(start);
    const more = { copyKind: action.copyKind ?? null, bytes: action.bytes ?? 0, launchedBy };
    this.note(action.kind, action.name, `stream ${this.laneOf(stream)}`, start, duration, line, more);
  }

  // ---- events

  record(name, stream) {
    this.now += this.cost.event_us;
    this.marks.set(name, Math.max(this.endOf(stream), this.now));
  }

  waitFor(name, stream) {
    this.now += this.cost.event_us;
    if (this.marks.has(name)) this.ends[stream] = Math.max(this.endOf(stream), this.marks.get(name));
  }

  // ---- times

  endOf(stream) {
    return this.ends[stream] ?? 0;
  }

  laneOf(stream) {
    return (this.lanes[stream] ??= Object.keys(this.lanes).length);
  }

  /** When the queue is full, the host waits for the oldest launch to start. */
  hasRoomAt() {
    return this.starts.length < MOST_QUEUED ? 0 : this.starts[this.starts.length - MOST_QUEUED];
  }

  callOf({ kind, copyKind, bytes, isProduct }) {
    const { launch_us: launch, gemm_launch_us: product, copy_call_us: copy } = this.cost;
    if (kind !== "copy") return launch + (isProduct ? product : 0);
    return copy + (isTakenOver(copyKind, bytes) ? bytes / this.cost.pageable_bandwidth : 0);
  }

  durationOf({ copyKind, bytes, microseconds }) {
    if (!copyKind) return microseconds;
    const pinned = copyKind === "h2d_pinned" || isTakenOver(copyKind, bytes);
    const { h2d_bandwidth: in_, d2h_bandwidth: out, pageable_bandwidth: pageable } = this.cost;
    return this.cost.copy_us + bytes / (copyKind === "d2h" ? out : pinned ? in_ : pageable);
  }
}

function isTakenOver(copyKind, bytes) {
  return copyKind === "h2d_pageable" && bytes <= TAKEN_OVER_AT_ONCE;
}
