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
