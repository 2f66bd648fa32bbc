// Reads a trace's JSON from a stream of bytes, some events at a time: its text is never whole.

/** An error whose message says what is wrong with a file. */
export class Damaged extends Error {}

const QUOTE = 34, BACKSLASH = 92, OPEN = 123, CLOSE = 125, OPEN_LIST = 91, CLOSE_LIST = 93;
const MOST_BYTES = 2 ** 22;
const EVENTS = /"traceEvents"\s*:\s*\[$/;

/** Calls `event` for each item of traceEvents in a file, plain or packed by gzip, and returns the
 * other entries. `progress` is called with the unpacked bytes so far. */
export async function readTrace(file, event, progress) {
  const splitter = new Splitter(event);
  const first = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const isPacked = first[0] === 0x1f && first[1] === 0x8b;
  const bytes = isPacked ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = bytes.getReader();
  for (let read = 0; ; ) {
    const { done, value } = await reader.read().catch((error) => {
      throw new Damaged(`it is cut off or damaged where gzip packed it (${error.message})`);
    });
    if (done) return splitter.finish();
    if (!read && isPacked && value[0] === 0x1f) throw new Damaged("it is packed twice: unpack it once");
    splitter.add(value);
    progress((read += value.length));
  }
}

class Splitter {
  constructor(event) {
    this.event = event;
    this.decoder = new TextDecoder();
    this.header = "";
    this.held = [];
    [this.depth, this.inText, this.isEscaped, this.inEvents, this.events] = [0, false, false, false, 0];
  }

  /** Looks for the ends of events in the next bytes, and takes the events that are whole. */
  add(part) {
    const { length } = part;
    let from = 0, whole = 0;
    for (let at = this.nextBrace(part, 0); at < length; at = this.nextBrace(part, at + 1)) {
      if (part[at] === OPEN || part[at] === OPEN_LIST) {
        this.depth += 1;
        if (this.depth !== 2 || this.inEvents || part[at] === OPEN) continue;
        this.take(part.subarray(from, at + 1));
        from = whole = at + 1;
        this.inEvents = EVENTS.test(this.header);
      } else {
        this.depth -= 1;
        if (!this.inEvents) continue;
        if (this.depth === 2) whole = at + 1;
        if (this.depth !== 1) continue;
        this.parse(part.subarray(from, at));
        from = whole = at;
        this.inEvents = false;
      }
    }
    if (!this.inEvents) return this.take(part.subarray(from));
    if (whole > from) this.parse(part.subarray(from, whole));
    this.hold(part.subarray(Math.max(from, whole)));
  }

  /** The place of the next brace or bracket that is in no text. */
  nextBrace(part, at) {
    const { length } = part;
    let { inText, isEscaped } = this;
    for (; at < length; at += 1) {
      const byte = part[at];
      if (inText) {
        if (isEscaped) isEscaped = false;
        else if (byte === BACKSLASH) isEscaped = true;
        else if (byte === QUOTE) inText = false;
      } else if (byte === QUOTE) inText = true;
      else if (byte === OPEN || byte === CLOSE || byte === OPEN_LIST || byte === CLOSE_LIST) break;
    }
    [this.inText, this.isEscaped] = [inText, isEscaped];
    return at;
  }

  take(bytes) {
    this.header += this.decoder.decode(bytes, { stream: true });
    const first = this.header.trimStart()[0];
    if (first === "[") throw new Damaged("it is a list, and torch.profiler writes an object with traceEvents");
    if (first && first !== "{") throw new Damaged("it is not JSON");
    if (this.header.length > MOST_BYTES) throw new Damaged("it has more than 4 MB beside its events");
  }

  hold(bytes) {
    this.held.push(bytes.slice());
    const size = this.held.reduce((sum, { length }) => sum + length, 0);
    if (size > MOST_BYTES) throw new Damaged(`event ${this.events + 1} has more than 4 MB`);
  }

  /** Takes the events in these bytes and in those that are held. */
  parse(bytes) {
    const text = new TextDecoder().decode(joined([...this.held, bytes])).replace(/^[\s,]+/, "");
    this.held = [];
    for (const event of valueOf(`[${text}]`, `after event ${this.events.toLocaleString("en")}`)) {
      this.events += 1;
      this.event(event);
    }
  }

  finish() {
    if (!this.header) throw new Damaged("it is empty");
    if (this.depth > 0) throw new Damaged("it ends in the middle: the profiler may still be writing it");
    const header = valueOf(this.header, "beside its events");
    if (!Array.isArray(header.traceEvents)) throw new Damaged("it has no list traceEvents");
    return header;
  }
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The value of a text in JSON, which may have raw control characters in its strings. */
function valueOf(text, place) {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return JSON.parse(text.replace(/[\u0000-\u001f]/g, " "));
    } catch (error) {
      throw new Damaged(`${place}: ${error.message.slice(0, 120)}`);
    }
  }
}
