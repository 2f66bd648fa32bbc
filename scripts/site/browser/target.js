// What the end of an address points to.

const MOST = 1000; // letters of an end that is looked up

/** Returns the element that `hash` names, with or without escapes, or null. */
export function targetOf(hash) {
  if (hash.length < 2 || hash.length > MOST) return null;
  return document.getElementById(decoded(hash.slice(1)));
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
