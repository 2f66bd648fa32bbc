// Reads a dropped file beside the page, which stays awake.
import { analyze } from "./analyze.js";
import { Damaged } from "./json.js";

onmessage = async ({ data: file }) => {
  try {
    const found = await analyze(file, (read) => postMessage({ read }));
    postMessage({ found }, [found.state.events.buffer, found.state.bubbles.buffer]);
  } catch (error) {
    const isLarge = error instanceof RangeError ? "it is too large for this browser" : error.message;
    postMessage({ refused: error instanceof Damaged ? error.message : `it can't be read here: ${isLarge}` });
  }
};
