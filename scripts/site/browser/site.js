// A page of the site comes to life: its views as they come near or as the address names one, and
// its questions.
import { openForLinks, openForPrint } from "./folds.js";
import { watchKeys, watchMenu } from "./keys.js";
import { watchQuestions } from "./questions.js";
import { watchSearch } from "./search.js";
import { stateIn } from "./target.js";
import { watchTerms } from "./terms.js";
import { watchTheme } from "./theme.js";
import { unpack } from "./unpack.js";
import { VIEWS } from "./views.js";

const near = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      wake(target);
    }
  },
  { rootMargin: "600px" },
);

const awake = new Map(); // of each figure: a promise of the function that shows a state
let telling = 0;

function wake(figure) {
  if (!awake.has(figure)) awake.set(figure, begin(figure));
  return awake.get(figure);
}

async function begin(figure) {
  const found = await unpack(figure.querySelector("script").textContent);
  const stage = document.createElement("div");
  figure.append(stage);
  const show = VIEWS[figure.dataset.view](stage, found, (words) => tell(figure.id, words));
  figure.querySelector(".still").hidden = true;
  figure.classList.add("awake");
  return show;
}

/** Writes into the address what a view shows; "" is what it began with. */
function tell(id, words) {
  clearTimeout(telling);
  telling = setTimeout(() => {
    try {
      history.replaceState(null, "", words ? `#${id}=${words}` : `#${id}`);
    } catch {
      // A browser may refuse: then the address stays.
    }
  }, 300);
}

/** Shows the state of a view that the address names. */
async function follow() {
  const { id, words } = stateIn(location.hash) ?? {};
  const figure = id && document.getElementById(id);
  if (!figure?.matches(".live")) return;
  const show = await wake(figure);
  figure.querySelector(".refused")?.remove();
  if (!show(words)) {
    const note = document.createElement("p");
    Object.assign(note, { className: "note refused", role: "status" });
    note.textContent = "The address asks for what this view doesn't have, so it shows all of it.";
    figure.append(note);
  }
  if (figure.checkVisibility()) figure.scrollIntoView();
}

// What has to be scrolled sideways can be scrolled by keys.
const SCROLLS = '.text table, .summary table, .output [style*="overflow"]';
for (const box of document.querySelectorAll(SCROLLS)) box.tabIndex = 0;
watchTheme();
watchMenu();
watchSearch();
watchKeys();
watchTerms();
openForPrint();
watchQuestions();
openForLinks();
for (const figure of document.querySelectorAll(".live")) near.observe(figure);
addEventListener("hashchange", follow);
follow();
