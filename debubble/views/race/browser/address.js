// The address holds the two programs: what comes after # as before=…&after=…, or pair=04.

const MOST = 12_000; // characters of an address that is read

/** Returns {texts, pair, complaint} of an address's end, for pairs by chapter. */
export function readAddress(hash, { pairs, most }) {
  if (hash.length > MOST) {
    const length = hash.length.toLocaleString("en");
    return { complaint: `The address has ${length} letters: at most ${MOST.toLocaleString("en")} are read.` };
  }
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const pair = pairs.find(({ chapter }) => chapter === given.get("pair"));
  if (given.has("pair") && !pair) return { complaint: "The address names no pair of this page." };
  if (pair) return { pair };
  const texts = [given.get("before"), given.get("after")];
  if (texts.every((text) => text === null)) return {};
  if (texts.some((text) => text === null)) return { complaint: "The address holds one program: a race needs two." };
  if (texts.some((text) => text.length > most.letters)) {
    return { complaint: `A program of the address is too long: at most ${most.letters} letters fit.` };
  }
  return { texts: texts.map((text) => text.replace(/\r\n?/g, "\n")) };
}

export function addressOf(texts, pair) {
  if (pair) return `#pair=${pair.chapter}`;
  return `#${new URLSearchParams({ before: texts[0], after: texts[1] })}`;
}

/** Writes the address without a step in the history. A page may forbid it: then it stays. */
export function writeAddress(end) {
  try {
    history.replaceState(null, "", end);
  } catch {
    return false;
  }
  return true;
}
