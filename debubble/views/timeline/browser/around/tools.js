// The row of buttons above the drawing.
import { add, addButton } from "../words.js";
import { Search } from "./search.js";

export class Tools {
  /** id: that of the table, which a button opens. */
  constructor(parent, view, id) {
    const box = add(parent, "span", { class: "tools", role: "group", "aria-label": "View" });
    this.search = new Search(box, view);
    this.stepper = addToggle(box, "Step through", "Go from event to event", () => view.toggleStepper());
    addButton(box, "Zoom in", "Zoom in (key +)", () => view.seen.zoom(0.6));
    addButton(box, "Zoom out", "Zoom out (key −)", () => view.seen.zoom(1 / 0.6));
    this.all = addButton(box, "Show all", "Show the whole recording (key Home)", () => view.seen.reset());
    addButton(box, "Sum up view", "Mark the visible part and sum it up (key S)", () => view.mark.markSeen());
    this.other = addToggle(box, "", "The recording that keys, search and list use (key G)", () => view.askOther());
    this.table = addToggle(box, "List events", "Show the events as a table", () => view.toggleTable());
    this.table.setAttribute("aria-controls", id);
    this.help = addButton(box, "Help", "How to use it", () => view.toggleHelp());
    this.help.setAttribute("aria-expanded", "false");
  }

  /** asked: "after" or "before", or null without a recording before. */
  say(asked) {
    this.other.hidden = asked === null;
    this.other.setAttribute("aria-pressed", String(asked === "before"));
    this.other.textContent = `Keys use: ${asked}`;
    this.other.setAttribute("aria-label", `Keys, search and list use the recording ${asked}`);
  }
}

function addToggle(parent, text, label, action) {
  const button = addButton(parent, text, label, action);
  button.setAttribute("aria-pressed", "false");
  return button;
}
