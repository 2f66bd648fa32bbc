// A field that finds events and bubbles by their names, kinds, causes and source lines.
import { add, time } from "../words.js";
import { Matches } from "../recording/matches.js";

export class Search {
  constructor(parent, view) {
    this.view = view;
    this.found = null;
    const label = "Find events by name, kind or source line";
    this.field = add(parent, "input", { type: "search", placeholder: "Find", "aria-label": label });
    this.field.title = `${label}; Enter goes to the next match, Shift and Enter to the previous match`;
    this.field.addEventListener("input", () => {
      this.look();
      view.say(this.count.textContent);
    });
    this.field.addEventListener("keydown", (event) => this.onKey(event));
    this.count = add(parent, "span", { class: "found" });
  }

  /** Searches again, in the recording that is active now. */
  look() {
    const words = this.field.value.trim();
    const recording = this.view.asked;
    this.found = words ? new Matches(recording, words) : null;
    this.count.textContent = this.found ? this.words(recording) : "";
    this.view.changed();
  }

  words(recording) {
    const { events, bubbles, duration } = this.found;
    if (!events.size && !bubbles.size) return "nothing found";
    const of = `${events.size.toLocaleString("en")} of ${recording.start.length.toLocaleString("en")}`;
    const idle = bubbles.size ? `, ${bubbles.size.toLocaleString("en")} bubbles` : "";
    return `${of} events, ${time(duration)}${idle}`;
  }

  onKey(event) {
    if (event.key === "Enter") this.view.step("events", event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && this.field.value) {
      this.field.value = "";
      this.look();
    } else return event.stopPropagation(); // A notebook has keys of its own.
    event.preventDefault();
    event.stopPropagation();
  }
}
