// The picture of pages_picture.py for the site, mark by mark the same, with the sliders of chapter 04.
import { BAR, FAINT, INK, Sheet, colourOf, counted } from "../../pictures/sheet.js";

const WIDTH = 760, LEFT = 96, RIGHT = 744;
const TABLES_TOP = 34, CACHE_TOP = 136, TOKENS_TOP = 216, LISTS_TOP = 254, ROW = 28;
const NULL = "#c4ccd4", NOBODY = "#eef1f4";
const PAGE = 16, GROUP = 16, NUM_BLOCKS = 16, PAGES_PER_SEQ = 5, MOST_TOKENS = 48;
const CAPTION = `Grey: block 0, the null block. Pale: of no request, and garbage after a length.
A group: the number of blocks that it reads, their ids, and the -1 after the last.`;
const CELL = (RIGHT - LEFT) / NUM_BLOCKS, HEIGHT = LISTS_TOP + ROW * (MOST_TOKENS / GROUP) + 40;

// numpy's shuffles of blocks 1 to 15, by the seed of the slider.
const ORDERS = [
  [3, 12, 4, 11, 1, 5, 8, 6, 15, 13, 7, 10, 14, 9, 2],
  [2, 13, 8, 11, 15, 5, 6, 9, 1, 10, 3, 14, 12, 7, 4],
  [10, 8, 7, 14, 3, 1, 13, 15, 12, 11, 6, 4, 5, 9, 2],
  [12, 10, 15, 3, 14, 1, 11, 2, 5, 8, 7, 13, 6, 4, 9],
  [13, 2, 11, 1, 3, 8, 10, 9, 14, 7, 5, 4, 6, 12, 15],
  [8, 4, 12, 2, 15, 10, 11, 3, 5, 13, 7, 1, 14, 6, 9],
];

/** Returns the sheet of a step of three requests. */
function draw({ request_0: first, request_1: second, new: fresh, window, order }) {
  const step = build([first, second, 24], [Math.min(1, first), Math.min(fresh, second), 1], window, ORDERS[order]);
  const sheet = new Sheet(WIDTH, HEIGHT, textOf(step));
  sheet.label(LEFT, 18, titleOf(step), { align: "left", bold: true });
  for (const part of [drawTables, drawCache, drawTokens, drawLists]) part(sheet, step);
  sheet.label(LEFT, HEIGHT - 8, CAPTION, { align: "left", colour: FAINT });
  return sheet;
}

const pagesOf = (length) => Math.ceil(length / PAGE);

/** Returns the step with the block table, the owner and page of each block, and the groups' lists. */
function build(lengths, news, window, shuffled) {
  const rows = lengths.map((_, request) => shuffled.slice(request * PAGES_PER_SEQ, (request + 1) * PAGES_PER_SEQ));
  const table = rows.map((row, request) => {
    const garbage = [...rows.at(request - 1)].reverse();
    return row.map((block, place) => (place < pagesOf(lengths[request]) ? block : garbage[place]));
  });
  const owners = Array(NUM_BLOCKS).fill(-1), places = Array(NUM_BLOCKS).fill(-1);
  table.forEach((row, request) => row.slice(0, pagesOf(lengths[request])).forEach((block, place) => {
    [owners[block], places[block]] = [request, place];
  }));
  const tokens = news.flatMap((count, request) => Array.from({ length: count }, (_, number) => {
    return { request, position: lengths[request] - count + number };
  }));
  const lists = [];
  for (let from = 0; from < tokens.length; from += GROUP) {
    const seen = tokens.slice(from, from + GROUP).flatMap((token) => blocksSeen(token, table, window));
    lists.push([...new Set(seen)].sort((a, b) => a - b));
  }
  return { lengths, news, table, owners, places, tokens, lists };
}

function blocksSeen({ request, position }, table, window) {
  const first = window ? Math.max(0, position - window + 1) : 0;
  return table[request].slice(Math.floor(first / PAGE), Math.ceil((position + 1) / PAGE));
}

function titleOf({ news, tokens, lists }) {
  const inStep = news.filter((count) => count > 0).length;
  return `${counted(tokens.length, "token")} of ${counted(inStep, "request")} in ${counted(lists.length, "group")} of ${GROUP}, blocks of ${PAGE}`;
}

function textOf(step) {
  const { lengths, news, table, owners, places, lists } = step;
  const row = (name, numbers) => `${name} of block`.padEnd(17) + numbers.map((n) => (n < 0 ? "." : String(n)).padStart(2)).join(" ");
  return [
    titleOf(step),
    ...lengths.map((length, request) => {
      const own = table[request].slice(0, pagesOf(length)).join(" ");
      return `request ${request}: ${length} tokens, ${news[request]} new, blocks ${own}`.trimEnd();
    }),
    row("request", owners),
    row("page", places),
    ...lists.map((blocks, group) => `group ${group}: ${counted(blocks.length, "block")}: ${[...blocks, -1].join(" ")}`),
  ].join("\n");
}

function drawTables(sheet, { lengths, news, table }) {
  table.forEach((row, request) => {
    const top = TABLES_TOP + ROW * request, colour = colourOf(request);
    nameRow(sheet, top, `request ${request}`, colour);
    drawRow(sheet, top, CELL, row.map((_, place) => (place < pagesOf(lengths[request]) ? colour : NOBODY)), row);
    const words = news[request] ? `${counted(lengths[request], "token")}, ${news[request]} new` : "not in this step";
    sheet.label(LEFT + CELL * PAGES_PER_SEQ + 10, top + 15, words, { align: "left" });
  });
}

function drawCache(sheet, { owners, places }) {
  nameRow(sheet, CACHE_TOP, "KV cache");
  nameRow(sheet, CACHE_TOP + BAR + 1, "request");
  nameRow(sheet, CACHE_TOP + BAR + 17, "page");
  drawRow(sheet, CACHE_TOP, CELL, owners.map((owner, block) => (block ? colourOfOwner(owner) : NULL)), [...owners.keys()]);
  owners.forEach((owner, block) => {
    if (owner < 0) return;
    const middle = LEFT + CELL * (block + 0.5);
    sheet.label(middle, CACHE_TOP + BAR + 16, owner, { colour: colourOf(owner), bold: true });
    sheet.label(middle, CACHE_TOP + BAR + 32, places[block]);
  });
}

function drawTokens(sheet, { tokens, lists }) {
  nameRow(sheet, TOKENS_TOP, "tokens");
  const width = (RIGHT - LEFT) / MOST_TOKENS;
  const filling = Array(lists.length * GROUP - tokens.length).fill(-1);
  drawRow(sheet, TOKENS_TOP, width, [...tokens.map(({ request }) => request), ...filling].map(colourOfOwner));
  lists.forEach((_, number) => {
    const left = LEFT + width * GROUP * number;
    sheet.line([left, TOKENS_TOP - 14], [left, TOKENS_TOP + BAR], INK);
    sheet.label(left + 4, TOKENS_TOP - 5, `group ${number}`, { align: "left", colour: FAINT });
  });
}

function drawLists(sheet, { lists, owners }) {
  lists.forEach((blocks, group) => {
    const top = LISTS_TOP + ROW * group;
    nameRow(sheet, top, `group ${group}: ${blocks.length}`);
    drawRow(sheet, top, CELL, blocks.map((block) => colourOf(owners[block])), blocks);
    sheet.label(LEFT + CELL * (blocks.length + 0.5), top + 15, -1, { colour: FAINT });
  });
}

const colourOfOwner = (request) => (request < 0 ? NOBODY : colourOf(request));

function nameRow(sheet, top, name, colour = INK) {
  sheet.label(LEFT - 12, top + 15, name, { align: "right", colour });
}

function drawRow(sheet, top, width, colours, words = []) {
  sheet.boxes(top, colours.map((colour, number) => ({ left: LEFT + width * number, width, colour, word: words[number] })));
}

export default { draw };
