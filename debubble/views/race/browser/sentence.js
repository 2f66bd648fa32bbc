// What a reader is told who wrote what the language doesn't have.

/** An error whose message is a sentence for the reader. `line` counts from 1, 0 is the whole text. */
export class Sentence extends Error {
  constructor(line, words) {
    super(line ? `Line ${line}: ${words}` : words);
    this.line = line;
  }
}

/** The words in quotes, cut so that the sentence stays one. */
export function quoted(words) {
  const short = words.length > 24 ? `${words.slice(0, 24)}…` : words;
  return `“${short}”`;
}

/** Returns the word of `known` that is at most two letters away from `word`, or null. */
export function nearest(word, known) {
  const [least, found] = known.map((each) => [distance(word.slice(0, 24), each), each]).sort(([a], [b]) => a - b)[0];
  return least <= 2 && least < found.length - 1 ? found : null;
}

/** Counts the letters to change, add or drop between two words. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[other.length];
}
