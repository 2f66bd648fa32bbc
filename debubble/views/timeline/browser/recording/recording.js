// One recording, unpacked and ordered for quick look-up; time 0 is its first event.
import { bytes, time } from "../words.js";
import { columns, lower, upper } from "./columns.js";

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

  /** [start, end] in microseconds of an event or a bubble. */
  spanOf({ what, index }) {
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

  /** Returns the lines that describe an event or a bubble; source text after "› ". */
  lines(target) {
    const { what, index } = target;
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
    }
    return [...lines, ...place];
  }
}
