// The meaning of a word of the glossary, where the pointer or the keyboard rests on it.
import { add } from "./nodes.js";

const EDGE = 8;

export function watchTerms() {
  const terms = document.querySelectorAll(".term[data-means]");
  if (!terms.length) return;
  const tip = add(document.body, "div", { id: "meaning", role: "tooltip", hidden: "" });
  const hide = () => (tip.hidden = true);
  for (const term of terms) {
    term.setAttribute("aria-describedby", "meaning");
    for (const kind of ["mouseenter", "focus"]) term.addEventListener(kind, () => placeTip(tip, term));
    for (const kind of ["mouseleave", "blur"]) term.addEventListener(kind, hide);
  }
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", ({ key }) => key === "Escape" && hide());
}

function placeTip(tip, term) {
  tip.textContent = term.dataset.means;
  tip.hidden = false;
  const place = term.getBoundingClientRect();
  const left = Math.min(place.left, innerWidth - tip.offsetWidth - EDGE);
  const below = place.bottom + 4;
  const top = below + tip.offsetHeight > innerHeight ? place.top - tip.offsetHeight - 4 : below;
  tip.style.left = `${Math.max(left, EDGE)}px`;
  tip.style.top = `${top}px`;
}
