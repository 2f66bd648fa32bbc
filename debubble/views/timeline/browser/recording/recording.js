// One recording, unpacked and ordered for quick look-up; time 0 is its first event.
import { bytes, count, shortName, time } from "../words.js";
import { columns, lower, upper } from "./columns.js";
import { Queue } from "./queue.js";
import { stepsOf } from "./steps.js";

const WORK = ["kernel or copy", "kernels and copies"];
const WAITS = ["launch waits for the device", "launches wait for the device"];

export class Recording {
  /** which: "after", the recording that is shown, or "before", its ghost. lanes: names of all rows
   * of the drawing, into which the recording's own lanes fall. */
  constructor(model, facts, which, lanes) {
    this.which = which;
    this.facts = facts[which];
    this.kinds = facts.palette.kinds;
    this.causes = facts.palette.causes;
    this.laneNames = lanes;
    const unpack = (what) => {
      const packed = model.get(which === "before" ? `ghost_${what}` : what);
      return columns(packed, this.facts[what], facts.layout[what]);
    };
    Object.assign(this, unpack("events"));
    this.bubbles = unpack("bubbles");
    const first = this.start.reduce((least, start) => Math.min(least, start), Infinity);
    for (const starts of [this.start, this.bubbles.start]) {
      for (let i = 0; i < starts.length; i++) starts[i] -= first;
    }
    this.bubbles.reach = this.bubbles.start.map((from, i) => from + this.bubbles.duration[i]);
    this.order = Int32Array.from(this.start.keys()).sort((a, b) => this.start[a] - this.start[b]);
    this.bubbleOrder = Int32Array.from(this.bubbles.start.keys());
    this.sortIntoLanes();
    this.queue = new Queue(this);
    this.steps = stepsOf(this, this.facts.steps ?? [], Number.isFinite(first) ? first : 0);
  }

  get deviceEvents() {
    const host = this.lanes[this.laneNames.indexOf("host")];
    return this.start.length - (host?.starts.length ?? 0);
  }

  /** The events that a launch started, in the order in which they begin. */
  startedBy(launch) {
    const found = [];
    for (let i = 0; i < this.launched_by.length; i++) if (this.launched_by[i] === launch) found.push(i);
    return found.sort((a, b) => this.start[a] - this.start[b]);
  }

  sortIntoLanes() {
    const own = this.facts.lanes.map((name) => this.laneNames.indexOf(name));
    const members = this.laneNames.map(() => []);
    for (const index of this.order) {
      const lane = (this.lane[index] = own[Math.min(this.lane[index], own.length - 1)]);
      members[lane].push(index);
    }
    this.length = 0;
    this.lanes = members.map((indices) => {
      if (!indices.length) return null;
      const lane = {
        index: Int32Array.from(indices),
        starts: Float64Array.from(indices, (index) => this.start[index]),
        ends: Float64Array.from(indices, (index) => this.start[index] + this.duration[index]),
        kinds: Uint8Array.from(indices, (index) => this.kind[index]),
      };
      let reached = -Infinity;
      // The latest end so far: sorted, though ends need not be.
      lane.reach = lane.ends.map((end) => (reached = Math.max(reached, end)));
      this.length = Math.max(this.length, reached);
      return lane;
    });
  }

  /** [start, end] in microseconds of an event, a bubble, a side of a step, or a moment. */
  spanOf({ what, index, side, moment }) {
    if (what === "steps") return this.steps[index][side];
    if (what === "queue") return [moment, moment];
    const set = what === "events" ? this : this.bubbles;
    return [set.start[index], set.start[index] + set.duration[index]];
  }

  /** The event of a lane at a moment or the nearest within `near` microseconds, or null. */
  eventAt(lane, moment, near) {
    const found = this.lanes[lane];
    if (!found) return null;
    let best = -1, distance = near;
    const last = upper(found.starts, moment + near);
    for (let i = lower(found.reach, moment - near); i < last; i++) {
      const away = Math.max(found.starts[i] - moment, moment - found.ends[i], 0);
      if (away <= distance) [best, distance] = [found.index[i], away];
    }
    return best < 0 ? null : { which: this.which, what: "events", index: best };
  }

  /** The step whose side, "host" or "device", is at a moment, or null. */
  stepSideAt(side, moment, near) {
    const within = ({ [side]: span }) => span && span[0] - near <= moment && moment <= span[1] + near;
    const index = this.steps.findLastIndex(within);
    return index < 0 ? null : { which: this.which, what: "steps", index, side };
  }

  queueAt(moment) {
    return { which: this.which, what: "queue", index: this.queue.at(moment), moment };
  }

  bubbleAt(moment, near) {
    const { start, reach } = this.bubbles;
    const index = lower(reach, moment - near);
    if (index >= start.length || start[index] > moment + near) return null;
    return { which: this.which, what: "bubbles", index };
  }

  /** Events and bubbles that touch [start, end], in the order in which they begin. */
  targetsIn(start, end) {
    const pick = (what, order, starts, ends) => {
      const found = [];
      for (const index of order) {
        if (starts[index] > end) break;
        if (ends(index) >= start) found.push({ which: this.which, what, index });
      }
      return found;
    };
    const { start: from, duration, bubbles } = this;
    const events = pick("events", this.order, from, (index) => from[index] + duration[index]);
    const idle = pick("bubbles", this.bubbleOrder, bubbles.start, (index) => bubbles.reach[index]);
    return [...events, ...idle].sort((a, b) => this.spanOf(a)[0] - this.spanOf(b)[0]);
  }

  /** [lane, what it is, number of its source line or -1] */
  about({ what, index }) {
    if (what === "bubbles") {
      const { cause, source } = this.bubbles;
      return ["idle", `bubble: ${this.causes[cause[index]].words}`, source[index]];
    }
    const words = `${this.kinds[this.kind[index]].words}: ${this.facts.names[this.name[index]]}`;
    return [this.laneNames[this.lane[index]], words, this.source[index]];
  }

  /** What the device does in an event: "kernel gemm", "pinned upload". */
  workOf(index) {
    const { key, words } = this.kinds[this.kind[index]];
    return key === "kernel" ? `${words} ${shortName(this.facts.names[this.name[index]])}` : words;
  }

  /** The numbers of the source lines of events, by file and line. */
  get linesInOrder() {
    return (this.sortedLines ??= [...new Set(this.source)].filter((source) => source >= 0).sort((a, b) => {
      const [one, other] = [a, b].map((source) => this.facts.sources[source][0]);
      return one.localeCompare(other, "en", { numeric: true });
    }));
  }

  /** Returns the lines that describe an event or a bubble; source text after "› ". */
  lines(target) {
    const { what, index } = target;
    if (what === "steps") return this.linesOfStep(this.steps[index]);
    if (what === "queue") return [`queue: ${count(index, WAITS)}`, `at ${time(target.moment)}`];
    const [, words, source] = this.about(target);
    const title = this.which === "before" ? `before: ${words}` : words;
    const [where, text] = source < 0 ? [] : this.facts.sources[source];
    const place = [where, text && `› ${text}`].filter(Boolean);
    if (what === "bubbles") return [title, time(this.bubbles.duration[index]), ...place];
    const size = this.bytes[index] ? `, ${bytes(this.bytes[index])}` : "";
    const lines = [title, `${time(this.duration[index])}${size}, at ${time(this.start[index])}`];
    const launch = this.launched_by[index];
    if (launch >= 0) {
      const late = this.start[index] - this.start[launch];
      const call = this.facts.names[this.name[launch]];
      lines.push(`launched by ${call}, ${time(Math.max(late, 0))} before it ran`);
    } else if (this.laneNames[this.lane[index]] === "host") lines.push(...this.linesOfStarted(index));
    return [...lines, ...place];
  }

  linesOfStarted(launch) {
    const started = this.startedBy(launch);
    if (!started.length) return [];
    const wait = Math.max(this.start[started[0]] - this.start[launch], 0);
    const first = started.length > 1 ? "the first of them" : "which";
    return [`started ${count(started.length, WORK)}, ${first} ran ${time(wait)} later`];
  }

  linesOfStep({ name, host, device }) {
    const span = ([from, to]) => `${time(to - from)}, from ${time(from)} to ${time(to)}`;
    return [`step: ${name}`, `host: ${span(host)}`, device ? `device: ${span(device)}` : "device: nothing"];
  }
}
