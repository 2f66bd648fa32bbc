// Slides: the arrow keys reveal the next step or show the next slide; a slide's view comes to life
// when it is shown.
import { unpack } from "../../scripts/site/browser/unpack.js";
import { VIEWS } from "../../scripts/site/browser/views.js";

const KEYS = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 };
const [SMALLEST, LARGEST] = [0.6, 1.6];
const OWN = "input, button, canvas, [role=slider]";
const all = [...document.querySelectorAll("section")];
let at = Math.min(all.length, Math.max(1, Number(location.hash.slice(1)) || 1)) - 1;

function show(next) {
  at = Math.min(all.length - 1, Math.max(0, next));
  all.forEach((slide, number) => slide.classList.toggle("now", number === at));
  document.querySelector("#place").textContent = `${at + 1} of ${all.length} · ← →`;
  history.replaceState(null, "", `#${at + 1}`);
  scrollTo(0, 0);
  const figures = all[at].querySelectorAll(".live");
  if (!figures.length) fitText(all[at]);
  for (const figure of figures) if (!figure.matches(".awake")) wake(figure);
}

/** Makes the letters of a slide smaller until the whole slide is in the window. */
function fitText(slide) {
  let size = 1;
  do slide.style.fontSize = `${size}em`;
  while (slide.scrollHeight > innerHeight && (size -= 0.05) > SMALLEST);
}

/** Reveals the next hidden step of the slide; false if there is none. */
function reveal() {
  const step = all[at].querySelector(".step:not(.shown)");
  step?.classList.add("shown");
  return Boolean(step);
}

async function wake(figure) {
  figure.classList.add("awake");
  const found = await unpack(figure.querySelector("script").textContent);
  const { view, at: place } = figure.dataset;
  if (place) found.slider.value = found.slider.options.at(Number(place));
  const stage = document.createElement("div");
  stage.className = "stage";
  figure.append(stage);
  VIEWS[view](stage, found, () => {}); // The address of slides holds no settings.
  requestAnimationFrame(() => {
    fit(stage);
    figure.dataset.ready = "";
  });
}

/** Enlarges a view as much as the rest of the window allows: its letters are small for a room. Its
 * words take more lines as it grows, so the size is found in a few steps. */
function fit(stage) {
  const below = Number.parseFloat(getComputedStyle(stage.closest("section")).paddingBottom);
  const room = Math.floor(innerHeight - stage.getBoundingClientRect().top - below) - 1;
  let zoom = LARGEST;
  do stage.style.zoom = zoom;
  while (stage.getBoundingClientRect().height > room && (zoom -= 0.1) > SMALLEST);
}

addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.(OWN)) return;
  if (event.key === "Home") show(0);
  else if (event.key === "End") show(all.length - 1);
  else if (event.key in KEYS) {
    event.preventDefault();
    if (KEYS[event.key] < 0 || !reveal()) show(at + KEYS[event.key]);
  }
});
for (const button of document.querySelectorAll("[data-by]")) {
  const by = Number(button.dataset.by);
  button.addEventListener("click", () => (by < 0 || !reveal()) && show(at + by));
}
show(at);
