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
    showFound(results, found.slice(0, MOST_FOUND), query);
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
  const words = query.toLowerCase().match(/[\p{L}\p{N}_#]+/gu) ?? [];
  if (!words.length) return [];
  const found = [];
  for (const section of sections) {
    const scores = words.map((word) => scoreOf(section.low, word));
    if (scores.every(Boolean)) found.push([scores.reduce((sum, each) => sum + each, 0), section]);
  }
  return found.sort(([a], [b]) => b - a).map(([, section]) => section);
}

function scoreOf({ title, heading, text }, word) {
  const times = Math.min(text.split(word).length - 1, 8);
  const begins = (words) => (words.startsWith(word) || words.includes(` ${word}`) ? 2 : words.includes(word) ? 1 : 0);
  return 6 * begins(heading) + 3 * begins(title) + times;
}

function showFound(results, found, query) {
  results.replaceChildren();
  results.hidden = !query.trim();
  if (!found.length) return void add(results, "p", {}, "Nothing has all these words.");
  const list = add(results, "ul", {});
  for (const { path, title, id, heading, text, low } of found) {
    const link = add(add(list, "li", {}), "a", { href: `${ROOT}${path}${id ? `#${id}` : ""}` });
    add(link, "b", {}, heading && heading !== title ? `${title} › ${heading}` : title);
    add(link, "span", {}, excerpt(text, low.text, query));
  }
}

function excerpt(text, low, query) {
  const [word] = query.toLowerCase().trim().split(/\s+/);
  const at = Math.max(low.indexOf(word), 0);
  const from = Math.max(at - AROUND, 0);
  return `${from ? "…" : ""}${text.slice(from, at + AROUND)}…`;
}
