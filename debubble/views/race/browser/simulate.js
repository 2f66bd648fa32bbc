// From the text of a program to its events and bubbles.
import { findBubbles } from "./bubbles.js";
import { parse } from "./program.js";
import { run } from "./run.js";

/** Returns {events, bubbles}. Throws a Sentence for a text that is no program. */
export function simulate(text) {
  const events = run(parse(text, FACTS.language), FACTS.cost);
  return { events, bubbles: findBubbles(events) };
}
