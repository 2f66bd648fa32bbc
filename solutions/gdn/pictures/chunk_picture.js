// The picture of chunk_picture.py for the site, mark by mark the same.
import { BAR, FAINT, INK, Sheet, colourOf, counted } from "../../pictures/sheet.js";

const WIDTH = 760, HEIGHT = 298, LEFT = 112, RIGHT = 744;
const TOKENS_TOP = 72, CHUNKS_TOP = 106, PROGRAMS_TOP = 162, TABLE_TOP = 190, OFFSETS_TOP = 232;
const ROW_NAMES = {
  tokens: TOKENS_TOP + 15, chunks: CHUNKS_TOP + 15, programs: PROGRAMS_TOP + 15,
  sequence: TABLE_TOP + 10, chunk: TABLE_TOP + 26, offsets: OFFSETS_TOP + 10,
};
const WIDEST_PROGRAM = 72, PALE = 0.25;

/** Returns the sheet of sequences of some lengths, cut into chunks. */
function draw({ chunk_size: size, ...lengthsByName }) {
  const batch = cut(Object.values(lengthsByName), size);
  const sheet = new Sheet(WIDTH, HEIGHT, textOf(batch));
  sheet.label(LEFT, 18, titleOf(batch), { align: "left", bold: true });
  for (const [name, y] of Object.entries(ROW_NAMES)) sheet.label(LEFT - 12, y, name, { align: "right" });
  for (const part of [drawTokens, drawCuts, drawChunks, drawPrograms, drawOffsets]) part(sheet, batch);
  return sheet;
}

/** Returns the batch with its programs, {sequence, chunk, first, tokens}, and where things lie. */
function cut(lengths, size) {
  const starts = [0], offsets = [0], programs = [];
  lengths.forEach((length, sequence) => {
    for (let first = 0; first < length; first += size) {
      programs.push({ sequence, chunk: first / size, first: starts.at(-1) + first, tokens: Math.min(size, length - first) });
    }
    starts.push(starts.at(-1) + length);
    offsets.push(programs.length);
  });
  const total = starts.at(-1);
  const width = Math.min(WIDEST_PROGRAM, (RIGHT - LEFT) / Math.max(1, programs.length));
  const x = (token) => LEFT + ((RIGHT - LEFT) * token) / Math.max(1, total);
  return { lengths, size, starts, offsets, programs, total, width, x };
}

function titleOf({ total, lengths, size, programs }) {
  return `${counted(total, "token")} in ${counted(lengths.length, "sequence")}, chunks of ${size}: ${counted(programs.length, "program")}`;
}

function textOf(batch) {
  const { programs, offsets } = batch;
  const rows = {
    program: programs.map((_, number) => number),
    sequence: programs.map(({ sequence }) => sequence),
    chunk: programs.map(({ chunk }) => chunk),
  };
  const width = Math.max(1, ...Object.values(rows).flat().map((number) => String(number).length));
  const line = (name, row) => (name.padEnd(14) + row.map((number) => String(number).padStart(width)).join(" ")).trimEnd();
  const lines = Object.entries(rows).map(([name, row]) => line(name, row));
  return [titleOf(batch), ...lines, "offsets".padEnd(14) + offsets.join(" ")].join("\n");
}

function drawTokens(sheet, { lengths, starts, x }) {
  const without = new Map();
  lengths.forEach((length, sequence) => {
    const left = x(starts[sequence]), width = x(starts[sequence + 1]) - left;
    if (!width) return void without.set(left, [...(without.get(left) ?? []), sequence]);
    const colour = colourOf(sequence), name = width > 80 ? `sequence ${sequence}` : sequence;
    sheet.label(left + width / 2, TOKENS_TOP - 8, name, { colour, bold: true });
    sheet.boxes(TOKENS_TOP, [{ left, width, colour, word: length }]);
  });
  for (const [at, sequences] of without) drawNoTokens(sheet, at, sequences);
}

function drawNoTokens(sheet, x, sequences) {
  const alone = sequences.length === 1, colour = alone ? colourOf(sequences[0]) : INK;
  const name = `sequence${alone ? "" : "s"} ${sequences.join(", ")}: no tokens`;
  const [align, beside] = x < WIDTH / 2 ? ["left", x + 5] : ["right", x - 5];
  sheet.line([x, TOKENS_TOP - 28], [x, TOKENS_TOP + BAR], colour, { width: 2.5 });
  sheet.label(beside, TOKENS_TOP - 24, name, { align, colour, bold: true });
}

function drawCuts(sheet, { total, size, starts, x }) {
  for (let token = size; token < total; token += size) {
    sheet.line([x(token), TOKENS_TOP - 4], [x(token), TOKENS_TOP + BAR + 4], INK, { dashed: true });
  }
  const pieces = Math.ceil(total / size), borders = new Set(starts.filter((start) => start > 0 && start < total));
  const torn = Array.from({ length: pieces }, (_, piece) => piece * size)
    .filter((from) => [...borders].some((border) => from < border && border < from + size)).length;
  const words = `Pale: rows that a program computes for nothing.\nDashed: cuts every ${size} tokens, across sequences: ${counted(pieces, "piece")}, ${torn} with tokens of several sequences.`;
  sheet.label(LEFT, HEIGHT - 11, words, { align: "left", colour: FAINT });
}

function drawChunks(sheet, { programs, x, width }) {
  const boxes = programs.map(({ sequence, chunk, first, tokens }) => {
    return { left: x(first), width: x(first + tokens) - x(first), colour: colourOf(sequence), word: chunk };
  });
  sheet.boxes(CHUNKS_TOP, boxes);
  boxes.forEach(({ left, width: wide, colour }, number) => {
    sheet.line([left + wide / 2, CHUNKS_TOP + BAR], [LEFT + width * (number + 0.5), PROGRAMS_TOP], colour);
  });
}

function drawPrograms(sheet, { programs, size, width }) {
  const all = programs.map((program, number) => ({ ...program, left: LEFT + width * number, colour: colourOf(program.sequence) }));
  sheet.boxes(PROGRAMS_TOP, all.map(({ left, colour }) => ({ left, width, colour, opacity: PALE })));
  sheet.boxes(PROGRAMS_TOP, all.map(({ left, colour, tokens }) => ({ left, width: (width * tokens) / size, colour })));
  for (const { left, colour, sequence, chunk } of all) {
    const font = width > 18 ? 12 : 10;
    sheet.label(left + width / 2, TABLE_TOP + 10, sequence, { colour, size: font, bold: true });
    sheet.label(left + width / 2, TABLE_TOP + 26, chunk, { size: font });
  }
}

function drawOffsets(sheet, { offsets, width }) {
  for (const offset of new Set(offsets)) {
    const x = LEFT + width * offset, times = offsets.filter((other) => other === offset).length;
    sheet.line([x, TABLE_TOP - 2], [x, OFFSETS_TOP - 2], FAINT);
    const align = !offset ? "left" : x < RIGHT - BAR ? "center" : "right";
    sheet.label(x, OFFSETS_TOP + 10, Array(times).fill(offset).join(", "), { align });
  }
}

export default { draw };
