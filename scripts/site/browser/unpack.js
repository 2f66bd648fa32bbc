// What a stored notebook holds for a view, as debubble/views/embedding.py packs it.

import { fromPlanes } from "./planes.js";

const COLUMNS = ["events", "bubbles", "ghost_events", "ghost_bubbles"];

/** The header, with `states` as a timeline's model has them. */
export async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const whole = await new Response(stream).arrayBuffer();
  const size = new DataView(whole).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(whole, 4, size)));
  header.states = header.states.map((place) => {
    const state = { facts: { ...place.facts, ...header.shared } };
    for (const name of COLUMNS) {
      const [offset, length] = place[name];
      const what = name.replace("ghost_", "");
      const count = length ? state.facts[name === what ? "after" : "before"][what] : 0;
      const packed = new DataView(whole, 4 + size + offset, length);
      // Chapters that were stored earlier have the columns as they are.
      state[name] = header.as_planes && length ? fromPlanes(packed, count, state.facts.layout[what]) : packed;
    }
    return state;
  });
  return header;
}
