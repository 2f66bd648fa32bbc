// The rows of a trace as columns, by the rules of debubble/traces/rows.py.
import { Damaged } from "./json.js";

export const NONE = -1;
export const [OPERATOR, ANNOTATION, FUNCTION, RUNTIME, DRIVER, OVERHEAD, KERNEL, COPY, MEMSET] = Array(9).keys();
const COLUMNS = ["category", "name", "track", "start", "duration", "correlation", "external", "stream", "device", "bytes"];

/** What is kept of each event: a list for each column. `name` and `track` are places in `names` and
 * `threads`; a number that a row lacks is NONE. */
export class Rows {
  constructor() {
    for (const column of COLUMNS) this[column] = [];
    [this.names, this.threads, this.events] = [[], [], 0];
    [this.numbers, this.places, this.threadNames] = [new Map(), new Map(), new Map()];
  }

  add(event) {
    this.events += 1;
    try {
      const { ph, cat } = event;
      if (ph === "X") {
        const category = FACTS.categories[cat] ?? FACTS.categories[String(cat).toLowerCase()];
        if (category !== undefined) this.keep(event, category);
      } else if (ph === "M" && event.name === "thread_name") {
        this.threadNames.set(keyOf(event), String(event.args.name).slice(0, 200));
      }
    } catch (error) {
      const place = `event ${this.events.toLocaleString("en")} is none of a profiler`;
      throw new Damaged(`${place}: ${error.message.slice(0, 120)}`);
    }
  }

  keep(event, category) {
    const { ts, dur = 0, name, tid } = event;
    const args = event.args || {};
    if (typeof ts !== "number" || !(dur >= 0 && Math.abs(ts) < FACTS.latest && dur < FACTS.latest)) {
      throw new Error(`it starts at ${ts} and lasts ${dur} microseconds`);
    }
    const isWork = category >= KERNEL;
    this.category.push(category);
    this.name.push(this.numbers.get(name) ?? this.number(name));
    this.track.push(this.placeOf(event));
    this.start.push(ts);
    this.duration.push(dur);
    this.correlation.push(whole(args.correlation ?? NONE));
    this.external.push(whole(args["External id"] ?? NONE));
    this.stream.push(isWork ? whole(args.stream ?? (typeof tid === "number" ? tid : NONE)) : NONE);
    this.device.push(isWork ? whole(args.device ?? NONE) : NONE);
    this.bytes.push(isWork ? whole(args.bytes ?? 0) : 0);
  }

  /** The number of a new name. Names that differ only in an object's address are one. */
  number(name) {
    const bare = name.startsWith("<") ? name.replace(ADDRESS, "") : name;
    const number = this.numbers.get(bare) ?? this.names.push(bare) - 1;
    this.numbers.set(bare, number).set(name, number);
    return number;
  }

  placeOf(event) {
    const key = keyOf(event);
    if (!this.places.has(key)) this.places.set(key, this.threads.push([key, event.tid]) - 1);
    return this.places.get(key);
  }

  end(row) {
    return this.start[row] + this.duration[row];
  }

  text(row) {
    return this.names[this.name[row]];
  }

  /** The places of all rows of these categories. */
  of(...categories) {
    const found = [];
    this.category.forEach((category, row) => categories.includes(category) && found.push(row));
    return found;
  }

  byStart(rows) {
    return rows.sort((a, b) => this.start[a] - this.start[b]);
  }
}

const ADDRESS = / (?:object )?at 0x[0-9a-f]+/g;

function keyOf({ pid, tid }) {
  return `${pid} ${tid}`;
}

function whole(value) {
  const number = Math.trunc(value);
  if (!Number.isFinite(number)) throw new Error(`${value} is no number`);
  return number;
}
