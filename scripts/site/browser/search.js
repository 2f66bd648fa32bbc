// The search: the index comes with the first search, and each section is found by all words of the
// query, whose last one may be a beginning.
import { add } from "./nodes.js";

const MOST_FOUND = 20;
const AROUND = 70; // letters of the text before and after what was found
const ROOT = document.body.dataset.root ?? "";

export function watchSearch() {
  const field = document.getElementById("search");
  if (!field) return;
  const results = document.getElementById("search-results"), status = document.getElementById("search-status");
  let sections = null;
  const look = async () => {
    sections ??= await loadIndex();
    const query = field.value.slice(0, 100);
    const found = query.trim() ? rank(sections, query) : [];
    const near = found.length ? [] : rankNear(sections, query);
    showFound(results, (found.length ? found : near).slice(0, MOST_FOUND), query, near.length > 0);
    status.textContent = query.trim() ? `${found.length} sections found.` : "";
  };
  field.addEventListener("focus", () => loadIndex(), { once: true });
  field.addEventListener("input", look);
  const close = () => (results.hidden = true);
  document.addEventListener("click", ({ target }) => target.closest("search") || close());
  field.closest("search").addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") return close(), field.focus();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const stops = [field, ...results.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
    stops[Math.min(Math.max(at, 0), stops.length - 1)].focus();
  });
}

let loading = null;

/** Loads the index by a script element: a page from a file can't fetch. */
function loadIndex() {
  loading ??= new Promise((done) => {
    window.debubbleSearch = (pages) => done(pages.flatMap(sectionsOf));
    add(document.head, "script", { src: `${ROOT}static/search.js` });
  });
  return loading;
}

function sectionsOf([path, title, sections]) {
  return sections.map(([id, heading, text]) => ({
    path, title, id, heading, text,
    low: { title: title.toLowerCase(), heading: heading.toLowerCase(), text: text.toLowerCase() },
  }));
}

/** Sections that have all words, those with a word in heading or title first. */
export function rank(sections, query) {
  const words = wordsOf(query);
  return words.length ? ranked(sections, words).filter(({ has }) => has === words.length).map(({ section }) => section) : [];
}

/** Sections that have the most words of a query that none has wholly. */
export function rankNear(sections, query) {
  const all = ranked(sections, wordsOf(query));
  const most = Math.max(0, ...all.map(({ has }) => has));
  return all.filter(({ has }) => has === most).map(({ section }) => section);
}

const wordsOf = (query) => query.toLowerCase().match(/[\p{L}\p{N}_#]+/gu) ?? [];

/** The sections with a word of `words`, the best first: {section, score, has}, `has` words of them. */
function ranked(sections, words) {
  const found = sections.map((section) => {
    const scores = words.map((word) => scoreOf(section.low, word));
    return { section, score: scores.reduce((sum, each) => sum + each, 0), has: scores.filter(Boolean).length };
  });
  return found.filter(({ has }) => has).sort((a, b) => b.score - a.score);
}

function scoreOf({ title, heading, text }, word) {
  const times = Math.min(text.split(word).length - 1, 8);
  const begins = (words) => (words.startsWith(word) || words.includes(` ${word}`) ? 2 : words.includes(word) ? 1 : 0);
  return 6 * begins(heading) + 3 * begins(title) + times;
}

function showFound(results, found, query, isNear) {
  results.replaceChildren();
  results.hidden = !query.trim();
  if (!found.length) return void add(results, "p", {}, "Nothing has all these words.");
  if (isNear) add(results, "p", {}, "Nothing has all these words. These sections have most of them:");
  const list = add(results, "ul", {});
  for (const { path, title, id, heading, text, low } of found) {
    const link = add(add(list, "li", {}), "a", { href: `${ROOT}${path}${id ? `#${id}` : ""}` });
    add(link, "b", {}, heading && heading !== title ? `${title} › ${heading}` : title);
    add(link, "span", {}, excerpt(text, low.text, query));
  }
}

function excerpt(text, low, query) {
  const words = wordsOf(query), word = words.find((each) => low.includes(each)) ?? words[0];
  const at = Math.max(low.indexOf(word), 0);
  const from = Math.max(at - AROUND, 0);
  return `${from ? "…" : ""}${text.slice(from, at + AROUND)}…`;
}
