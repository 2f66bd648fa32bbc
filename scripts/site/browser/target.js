// What the end of an address points to.

const MOST = 1000; // letters of an end that is looked up

const STATE = /^#(view-\d{1,4})=(.*)$/s;

/** Returns the element that `hash` names, with or without escapes, or null. */
export function targetOf(hash) {
  if (hash.length < 2 || hash.length > MOST) return null;
  return document.getElementById(stateIn(hash)?.id ?? decoded(hash.slice(1)));
}

/** Returns {id, words}, a view and what it has to show, of a hash such as #view-3=4..9, or null. */
export function stateIn(hash) {
  const found = hash.length <= MOST && STATE.exec(hash);
  return found ? { id: found[1], words: decoded(found[2]) } : null;
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
