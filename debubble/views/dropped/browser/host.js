// What each thread was doing at each moment, by the rules of debubble/traces/host.py.
import { upper } from "../../timeline/browser/recording/columns.js";
import { ANNOTATION, DRIVER, FUNCTION, NONE, OPERATOR, RUNTIME } from "./rows.js";

export const [SYNC, ALLOCATION, LAUNCH, OPERATORS, PYTHON, LOADER, LOCK, OUTSIDE] = Array(8).keys();
export const PATTERNS = Object.fromEntries(Object.entries(FACTS.patterns).map(([name, text]) => [name, new RegExp(text)]));
const NOTHING = { kind: OUTSIDE, line: NONE, operator: NONE, number: 0 };
export const isCall = (category) => category === RUNTIME || category === DRIVER;

/** All threads that call CUDA, by their track: `starts` of stretches, and what each does. */
export class Host {
  constructor(rows) {
    [this.rows, this.known, this.waits, this.lines] = [rows, new Map(), new Map(), new Map()];
    this.ofCall = new Map();
    this.tracks = threadsOfCalls(rows);
    const calling = new Map();
    rows.category.forEach((each, row) => isCall(each) && calling.set(this.tracks[row], []));
    for (const row of rows.of(OPERATOR, ANNOTATION, FUNCTION, RUNTIME, DRIVER)) calling.get(this.tracks[row])?.push(row);
    this.threads = new Map([...calling].map(([track, found]) => [track, this.thread(found)]));
  }

  thread(found) {
    const { rows } = this;
    found.sort((a, b) => rows.start[a] - rows.start[b] || rows.duration[b] - rows.duration[a]);
    const starts = [], doing = [], open = [];
    let reached = -Infinity;
    const add = (time, state) => {
      starts.push((reached = time));
      doing.push(state);
    };
    const close = () => {
      const { end } = open.pop();
      if (end >= reached) add(end, open.at(-1)?.state ?? NOTHING);
    };
    for (const row of found) {
      while (open.length && open.at(-1).end <= rows.start[row]) close();
      const category = rows.category[row];
      const state = this.state(open.at(-1)?.state ?? NOTHING, category, rows.name[row]);
      if (isCall(category)) this.ofCall.set(row, state);
      add(Math.max(reached, rows.start[row]), state);
      open.push({ end: rows.end(row), state });
    }
    while (open.length) close();
    return { starts, doing };
  }

  /** What a row does inside another that does `around`. */
  state(around, category, name) {
    const { kind, line, operator } = around;
    const text = this.rows.names[name];
    if (isCall(category)) return this.doing(this.once(name, () => kindOfCall(text)), line, operator);
    const isLine = category === FUNCTION && this.line(name) !== null;
    if (kind === LOADER || kind === LOCK) return isLine ? this.doing(kind, name, operator) : around;
    if (category === OPERATOR) return this.doing(OPERATORS, line, text.startsWith("aten::") ? name : operator);
    if (category === ANNOTATION) return text.startsWith(FACTS.loader) ? this.doing(LOADER, line, operator) : around;
    const waits = this.once(name, () => (PATTERNS.locks.test(text) ? LOCK : PYTHON));
    return this.doing(waits, isLine ? name : line, operator);
  }

  once(name, kind) {
    if (!this.waits.has(name)) this.waits.set(name, kind());
    return this.waits.get(name);
  }

  doing(kind, line, operator) {
    const count = this.rows.names.length + 1;
    const key = (kind * count + line + 1) * count + operator + 1;
    if (!this.known.has(key)) this.known.set(key, { kind, line, operator, number: this.known.size + 1 });
    return this.known.get(key);
  }

  /** The first line of a function of the user's, or null. */
  line(name) {
    if (!this.lines.has(name)) this.lines.set(name, functionLine(this.rows.names[name]));
    return this.lines.get(name);
  }

  operator({ operator }) {
    return operator === NONE ? null : this.rows.names[operator].replace(/^aten::/, "");
  }

  /** [microseconds, doing] of each stretch of a thread between two times of the trace. */
  *stretches(track, start, end) {
    const { starts, doing } = this.threads.get(track);
    for (let at = upper(starts, start) - 1; start < end; at += 1) {
      const until = Math.min(at + 1 < starts.length ? starts[at + 1] : end, end);
      if (until <= start) continue;
      yield [until - start, at < 0 ? NOTHING : doing[at]];
      start = until;
    }
  }
}

function kindOfCall(text) {
  if (PATTERNS.allocates.test(text)) return ALLOCATION;
  return PATTERNS.waits.test(text) ? SYNC : LAUNCH;
}

/** The track of each row, that of its operator for a CUDA call. */
function threadsOfCalls({ category, external, track }) {
  const known = new Map();
  category.forEach((each, row) => {
    if (each === OPERATOR && external[row] !== NONE && !known.has(external[row])) known.set(external[row], track[row]);
  });
  return track.map((own, row) => (isCall(category[row]) ? known.get(external[row]) ?? own : own));
}

function functionLine(text) {
  const matched = PATTERNS.function.exec(text);
  if (!matched) return null;
  const { file: path, line, name } = matched.groups;
  const file = path.replace(PATTERNS.installed, "");
  const top = file.split("/")[0].replace(/\.py$/, "");
  if (PATTERNS.library.test(file) || FACTS.machinery.includes(top) || file.startsWith("<")) return null;
  const number = Number(line.slice(0, 9));
  const code = name === "<module>" ? "the module's own code" : `def ${name}`;
  const isCell = path.includes("ipykernel_") || path.startsWith("<ipython-input");
  const place = isCell ? `this notebook, line ${number}` : `${path.split("/").at(-1)}:${number}`;
  return { file: path, line: number, function: name, place, code };
}
