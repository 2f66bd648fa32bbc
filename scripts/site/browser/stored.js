// What a reader's browser keeps of them: answers and theme. A browser may refuse, then nothing is kept,
// and what is stored may be anything: only short words by short names are believed.

const MOST_LETTERS = 200;
const MOST_NAMES = 200;
const MOST_STORED = 100_000;

export function recallWords(place) {
  try {
    const text = localStorage.getItem(place) ?? "{}";
    if (text.length > MOST_STORED) return {};
    return onlyWords(JSON.parse(text));
  } catch {
    return {};
  }
}

function onlyWords(found) {
  if (typeof found !== "object" || found === null || Array.isArray(found)) return {};
  const isShort = ([name, words]) => typeof words === "string" && words.length <= MOST_LETTERS && /^[\w-]{1,40}$/.test(name);
  const kept = Object.entries(found).filter(isShort).slice(0, MOST_NAMES);
  return Object.fromEntries(kept.filter(([name]) => name !== "__proto__"));
}

export function keepWords(place, words) {
  try {
    localStorage.setItem(place, JSON.stringify(words));
  } catch {
    return;
  }
}

export function forget(place) {
  try {
    localStorage.removeItem(place);
  } catch {
    return;
  }
}
