// A page of the site comes to life: its views as they come near, and its questions.
import { openForLinks, openForPrint } from "./folds.js";
import { watchKeys, watchMenu } from "./keys.js";
import { watchQuestions } from "./questions.js";
import { watchSearch } from "./search.js";
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

async function wake(figure) {
  const found = await unpack(figure.querySelector("script").textContent);
  const stage = document.createElement("div");
  figure.append(stage);
  VIEWS[figure.dataset.view](stage, found);
  figure.querySelector(".still").hidden = true;
  figure.classList.add("awake");
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
