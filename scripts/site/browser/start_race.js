// Starts the races of a page.
import { Model } from "./model.js";

for (const el of document.querySelectorAll("[data-race]")) {
  el.replaceChildren();
  RACE.render({ model: new Model({ pair: el.dataset.race, address: "address" in el.dataset }), el });
}
