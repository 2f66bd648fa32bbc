// The values of the words: numbers with units, sizes, names. Each reader takes them from the front.
import { Sentence, quoted } from "./sentence.js";

const NUMBER = /^(\d{1,12}(?:\.\d{1,6})?)([a-zµA-Z]*)$/;
const NAME = /^[a-z][a-z0-9_]{0,15}$/;

/** Reads the values that a word takes from `rest`, words of the line `line`. */
export function readValues(takes, rest, line, word, { sizes, units, bounds }) {
  const left = [...rest], values = {};
  const complain = (words) => {
    throw new Sentence(line, words);
  };
  const next = (what, example) => left.shift() ?? complain(`${word} needs ${what}, such as ${example}.`);
  const within = (value, [low, high], words) => {
    if (value >= low && value <= high) return value;
    return complain(`${quoted(words)} is out of range: ${word} takes ${low} to ${high}.`);
  };
  const whole = (what, example) => {
    const words = next(what, example);
    return /^\d{1,12}$/.test(words) ? [Number(words), words] : complain(`${quoted(words)} is no whole number.`);
  };
  const readers = {
    size() {
      const [value] = whole("a size", "1024");
      if (sizes.includes(value)) return value;
      return complain(`matmul takes ${sizes.slice(0, -1).join(", ")} or ${sizes.at(-1)}, not ${value}.`);
    },
    count: () => within(...spread(whole("a number of times", "7"), bounds.count)),
    number: () => within(...spread(whole("a stream", "1"), bounds.number)),
    name() {
      const words = next("the name of an event", "ready");
      return NAME.test(words) ? words : complain(`${quoted(words)} is no name: write lower-case letters.`);
    },
    memory() {
      const words = next("pinned or pageable", "upload pinned 4 MiB");
      if (words === "pinned" || words === "pageable") return words;
      return complain(`${quoted(words)} is no memory: write pinned or pageable.`);
    },
    time: () => measure("time", "30 us"),
    bytes: () => Math.round(measure("bytes", "4 MiB")),
  };
  function measure(kind, example) {
    const words = next(kind === "time" ? "a time" : "a size in bytes", example);
    const [, digits, glued] = NUMBER.exec(words) ?? complain(`${quoted(words)} is no number.`);
    const unit = glued || left.shift() || "";
    const factor = Object.hasOwn(units[kind], unit) ? units[kind][unit] : null;
    if (factor === null) {
      complain(`${quoted(`${digits} ${unit}`)} lacks a unit: write ${Object.keys(units[kind]).join(", ")}.`);
    }
    const value = Number(digits) * factor;
    const [low, high] = bounds[kind];
    if (value < low || value > high) {
      complain(`${quoted(`${digits} ${unit}`)} is out of range: ${kind === "time" ? "at most 1000 ms" : "1 B to 256 MiB"}.`);
    }
    return value;
  }
  for (const kind of takes) values[kind] = readers[kind]();
  if (left.length) complain(`${quoted(left.join(" "))} is too much after ${word}.`);
  return values;
}

function spread([value, words], limits) {
  return [value, limits, words];
}
