// Parses a program: one word a line, blocks by indentation, and a sentence for all that is no program.
import { Sentence, nearest, quoted } from "./sentence.js";
import { readValues } from "./values.js";

/** Returns the program's statements, {word, values, line, body}. Throws a Sentence. */
export function parse(text, language) {
  const { letters, lines: most } = language.most;
  if (text.length > letters) throw new Sentence(0, `The program has ${text.length} letters: at most ${letters} fit.`);
  const lines = text.split("\n");
  if (lines.length > most) throw new Sentence(0, `The program has ${lines.length} lines: at most ${most} fit.`);
  const root = { body: [], indent: -1, inside: null };
  const open = [root];
  lines.forEach((whole, index) => {
    const words = whole.replace(/#.*$/, "").trimEnd();
    if (words) place(words, index + 1, open, language);
  });
  checkBlocks(root.body);
  checkEvents(root.body);
  countCalls(root.body, language.most.calls);
  return root.body;
}

/** Adds the statement of one line to the block that its indentation says. */
function place(words, line, open, language) {
  if (/^ *\t/.test(words)) throw new Sentence(line, "a tab: indent by spaces.");
  const indent = words.length - words.trimStart().length;
  while (indent <= open.at(-1).indent) open.pop();
  const block = open.at(-1);
  const first = block.body[0];
  if (first && first.indent !== indent) throw new Sentence(line, "its indentation fits no line above.");
  if (!first && block.indent < 0 && indent > 0) throw new Sentence(line, "is indented, and no word above opens a block.");
  const statement = read(words.trim(), line, language);
  Object.assign(statement, { indent, inside: block.word === "graph" ? block : block.inside });
  checkGraph(statement, language);
  block.body.push(statement);
  open.push(statement);
  if (open.length > language.most.depth + 2) throw new Sentence(line, `more than ${language.most.depth} blocks in one another.`);
}

function read(words, line, language) {
  const [word, ...rest] = words.split(/\s+/);
  if (!Object.hasOwn(language.words, word)) {
    const known = Object.keys(language.words);
    const near = nearest(word, known) ?? spelled(words, known);
    const hint = near ? `did you mean ${near}?` : "open the table of words below the picture.";
    throw new Sentence(line, `${quoted(word)} is no word of this language: ${hint}`);
  }
  const { takes, block } = language.words[word];
  return { word, values: readValues(takes, rest, line, word, language), line, isBlock: Boolean(block), body: [] };
}

/** Returns the word of the language that a line of Python such as `loss.item()` has in it, or undefined. */
function spelled(words, known) {
  const parts = words.slice(0, 200).match(/[a-z]+/gi) ?? [];
  return known.findLast((word) => parts.includes(word));
}

function checkGraph({ inside, word, values, line }, language) {
  if (!inside) return;
  if (!language.in_graphs.includes(word)) {
    const why = word === "item" || word === "synchronize" ? "a capture can't wait for the GPU" : "write it around the graph";
    throw new Sentence(line, `${word} can't be in a graph: ${why}.`);
  }
  if (values.memory === "pageable") throw new Sentence(line, "a graph can't hold a pageable upload: the host would wait.");
}

function checkBlocks(body) {
  for (const { isBlock, body: inner, word, line } of everyStatement(body)) {
    if (isBlock && !inner.length) throw new Sentence(line, `${word} needs indented lines below it.`);
    if (!isBlock && inner.length) throw new Sentence(inner[0].line, `is indented, and ${word} opens no block.`);
  }
}

function checkEvents(body) {
  const all = [...everyStatement(body)];
  const recorded = new Set(all.filter(({ word }) => word === "event").map(({ values }) => values.name));
  const lost = all.find(({ word, values }) => word === "wait" && !recorded.has(values.name));
  if (lost) throw new Sentence(lost.line, `no line records the event ${lost.values.name}: write event ${lost.values.name}.`);
}

function* everyStatement(body) {
  for (const statement of body) {
    yield statement;
    yield* everyStatement(statement.body);
  }
}

/** Counts the calls that a program makes, before it makes them. */
function countCalls(body, most) {
  const count = (statements) => statements.reduce((sum, { word, values, body: inner }) => {
    return sum + (word === "repeat" ? values.count * count(inner) : 1 + count(inner));
  }, 0);
  const calls = count(body);
  if (calls > most) throw new Sentence(0, `The program makes ${calls.toLocaleString("en")} calls: at most ${most.toLocaleString("en")} fit.`);
  if (!calls) throw new Sentence(0, "The program is empty: write a word such as kernel.");
}
