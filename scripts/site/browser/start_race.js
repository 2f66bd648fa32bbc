// Starts the races of a page.
import { Model } from "./model.js";

for (const el of document.querySelectorAll("[data-race]")) {
  el.replaceChildren();
  const chapters = JSON.parse(el.dataset.chapters ?? "{}");
  RACE.render({ model: new Model({ pair: el.dataset.race, address: "address" in el.dataset, chapters }), el });
}
