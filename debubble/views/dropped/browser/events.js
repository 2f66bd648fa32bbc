// A trace as the events of a timeline, by the rules of debubble/traces/reading.py.
import { PATTERNS } from "./host.js";
import { COPY, DRIVER, KERNEL, MEMSET, NONE, RUNTIME } from "./rows.js";

const KINDS = { [KERNEL]: "kernel", [COPY]: "copy", [MEMSET]: "memset" };

/** {events, device, devices, lost, origin}: calls that wait or start work, and the work of one device. */
export function eventsOf(rows, host) {
  const { device, devices, all } = chooseDevice(rows);
  const timed = withTime(rows, all);
  const [begin, end] = windowOf(rows);
  const inWindow = (row) => rows.start[row] >= begin && rows.start[row] <= end;
  const calls = rows.byStart(rows.of(RUNTIME, DRIVER)).filter(inWindow);
  const callOf = matched(rows, timed, calls);
  const work = timed.filter((row) => callOf.has(row) || begin === -Infinity);
  const launches = new Set(callOf.values());
  const copies = new Set(work.filter((row) => rows.category[row] === COPY).map((row) => callOf.get(row)));
  const kept = calls.filter((row) => kindOf(rows.text(row), launches.has(row)));
  const first = [...kept.slice(0, 1), ...work.slice(0, 1)].map((row) => rows.start[row]);
  const origin = Number.isFinite(begin) ? begin : Math.min(...(first.length ? first : [0]));
  const threads = threadNames(rows, host, kept);
  const indexOf = new Map(kept.map((row, index) => [row, index]));
  const timeOf = (row) => ({ start: rows.start[row] - origin, duration: rows.duration[row] });
  const events = kept.map((row) => {
    const kind = kindOf(rows.text(row), launches.has(row)), doing = host.ofCall.get(row);
    const operator = host.operator(doing), isWait = kind === "sync";
    const name = isWait ? wordsOf(rows.text(row)) : operator ?? rows.text(row);
    const named = isWait || copies.has(row) ? operator : null;
    return { kind, name, lane: "host", ...timeOf(row), line: lineFor(doing), thread: threads.get(host.tracks[row]), operator: named, row };
  });
  const lanes = lanesOf(work.map((row) => rows.stream[row]));
  for (const row of work) {
    const text = rows.text(row), kind = KINDS[rows.category[row]], call = callOf.get(row);
    const copyKind = kind === "copy" ? copyKindOf(text) : null;
    if (kind === "copy" && !copyKind) continue;
    const doing = host.ofCall.get(call);
    const name = copyKind ?? (doing && host.operator(doing)) ?? shortName(text);
    const launchedBy = indexOf.get(call) ?? null;
    events.push({ kind, name, lane: lanes.get(rows.stream[row]), ...timeOf(row), line: lineFor(doing), copyKind, bytes: rows.bytes[row], launchedBy, row });
  }
  return { events, device, devices, origin, lost: all.length - timed.length };
}

const lineFor = (doing) => (!doing || doing.line === NONE ? null : doing.line);

/** The device with the most work, all devices, and the chosen one's rows in the order of time. */
function chooseDevice(rows) {
  const of = new Map();
  for (const row of rows.of(KERNEL, COPY, MEMSET)) {
    const number = rows.device[row];
    of.set(number, of.get(number) ?? []);
    of.get(number).push(row);
  }
  const devices = [...of.keys()].sort((a, b) => a - b);
  const device = devices.reduce((best, each) => (of.get(each).length > (of.get(best)?.length ?? 0) ? each : best), NONE);
  return { device, devices, all: rows.byStart(of.get(device) ?? []) };
}

function withTime(rows, work) {
  let first = Infinity;
  rows.category.forEach((each, row) => each < KERNEL && (first = Math.min(first, rows.start[row])));
  const from = first === Infinity ? -Infinity : first - FACTS.far;
  return work.filter((row) => rows.start[row] !== 0 && rows.start[row] > from);
}

/** The times between which calls count. */
function windowOf(rows) {
  const [begins, ends] = FACTS.marks.map((mark) => {
    const name = rows.names.indexOf(mark);
    return name < 0 ? -1 : mark === FACTS.marks[0] ? rows.name.indexOf(name) : rows.name.lastIndexOf(name);
  });
  if (begins >= 0 && ends >= 0) return [rows.end(begins), rows.start[ends]];
  const last = rows.of(RUNTIME, DRIVER).reduce((best, row) => (best < 0 || rows.start[row] > rows.start[best] ? row : best), -1);
  const isProfilers = last >= 0 && /^(cuda|hip)DeviceSynchronize$/.test(rows.text(last));
  return [-Infinity, isProfilers ? justBefore(rows.start[last]) : Infinity];
}

const justBefore = (time) => time - Math.abs(time) * Number.EPSILON;

/** The call that started each device row: the last of its correlation that began before it. */
function matched(rows, work, calls) {
  const known = new Map(), found = new Map();
  for (const row of calls) {
    const number = rows.correlation[row];
    if (number === NONE) continue;
    if (known.has(number)) known.get(number).push(row);
    else known.set(number, [row]);
  }
  for (const row of work) {
    const candidates = known.get(rows.correlation[row]);
    if (!candidates) continue;
    const before = candidates.filter((call) => rows.start[call] <= rows.start[row]);
    found.set(row, candidates.length === 1 ? candidates[0] : before.at(-1) ?? candidates[0]);
  }
  return found;
}

function kindOf(text, launches) {
  if (PATTERNS.waits.test(text)) return "sync";
  if (text.includes("GraphLaunch")) return "graph_launch";
  return launches ? "launch" : null;
}

const wordsOf = (text) => (text.match(/[A-Z][a-z]+/g) ?? []).join(" ").toLowerCase();

function copyKindOf(text) {
  if (text.includes("HtoD")) return text.includes("Pinned ->") ? "h2d_pinned" : "h2d_pageable";
  return text.includes("DtoH") ? "d2h" : text.includes("DtoD") ? "d2d" : null;
}

function shortName(text) {
  const name = text.replace(/^void /, "").replaceAll("(anonymous namespace)::", "");
  const mangled = /^_ZN?(?=\d)/.exec(name);
  if (mangled) return lastPart(name.slice(mangled[0].length));
  const bare = name.split(/[<(]/, 1)[0];
  return bare.split("::").at(-1).trim() || text;
}

/** The last of the names that follow each other in C++'s mangled form: `4name3two`. */
function lastPart(mangled) {
  let name = "";
  for (let found; (found = /^\d+/.exec(mangled)); ) {
    const end = found[0].length + Number(found[0]);
    [name, mangled] = [mangled.slice(found[0].length, end), mangled.slice(end)];
  }
  return name;
}

function lanesOf(streams) {
  const first = streams.includes(0) ? 0 : FACTS.default_stream;
  const others = [...new Set(streams)].filter((stream) => stream !== first);
  return new Map([first, ...others].map((stream, number) => [stream, `stream ${number}`]));
}

/** The name of each thread that calls: null for the one with the most calls. */
function threadNames(rows, host, kept) {
  const counts = new Map();
  for (const row of kept) counts.set(host.tracks[row], (counts.get(host.tracks[row]) ?? 0) + 1);
  const most = [...counts].sort(([a, n], [b, m]) => m - n || a - b)[0]?.[0];
  const name = ([key, thread]) => rows.threadNames.get(key) ?? `thread ${thread}`;
  return new Map([...counts.keys()].map((track) => [track, track === most ? null : name(rows.threads[track])]));
}
