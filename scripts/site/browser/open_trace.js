// A trace that is dropped on the page: a worker reads it, and its findings are shown. Nothing is sent.
import { Model } from "./model.js";
import { add, time } from "../../../debubble/views/timeline/browser/words.js";

const MOST_PLACES = 20;
const root = document.querySelector("[data-trace]");
root.replaceChildren();
const label = add(root, "label", { class: "drop" }, "Drop a trace here, or choose a file: ");
const chooser = add(label, "input", { type: "file", accept: ".json,.gz", autocomplete: "off" });
const example = add(root, "p", {});
const tryIt = add(example, "button", { type: "button" }, "Try an example");
example.append(" Six steps of a loop that a DataLoader feeds, recorded on an H100.");
const status = add(root, "p", { role: "status" });
const shown = add(root, "div", {});
const source = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
let worker = null, remove = null;

tryIt.addEventListener("click", async () => open(await loadExample()));
// The same file can be chosen again, and a page that the browser goes back to names no file without its report.
chooser.addEventListener("click", () => (chooser.value = ""));
addEventListener("pageshow", () => worker || (chooser.value = ""));
chooser.addEventListener("change", () => chooser.files[0] && open(chooser.files[0]));
for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    label.classList.toggle("over", name === "dragenter" || name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
}

/** Loads the example by a script element: a page from a file can't fetch. */
function loadExample() {
  return new Promise((done) => {
    window.debubbleExample = (name, text) => {
      done(new File([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], name));
    };
    add(document.head, "script", { src: `${document.body.dataset.root ?? ""}static/example.js` });
  });
}

function open(file) {
  worker?.terminate();
  remove?.();
  shown.replaceChildren();
  status.textContent = `Reading ${file.name} …`;
  worker = new Worker(source);
  worker.onmessage = ({ data: { read, refused, found } }) => {
    if (read) status.textContent = `Reading ${file.name}: ${(read / 1e6).toFixed(0)} MB …`;
    if (refused) status.textContent = `${file.name} is not a trace that can be read: ${refused}.`;
    if (found) show(file, found);
  };
  worker.onerror = ({ message }) => (status.textContent = `${file.name} can't be read here: ${message}`);
  worker.postMessage(file);
}

function show(file, found) {
  const span = found.span_us;
  const share = (us) => `${((100 * us) / span).toFixed(1)}%`;
  status.textContent = span
    ? `${file.name} (${found.label}, under torch.profiler): the device was idle for ${share(found.idle_us)} of ${time(span)}.`
    : `${file.name}: the device did nothing.`;
  const stage = add(shown, "div", {});
  remove = TIMELINE.render({ model: new Model(found.state), el: stage });
  const causes = Object.entries(found.idle_by_cause_us).sort(([, a], [, b]) => b - a);
  table("Idle time by cause", ["idle", "share", "cause"], causes.map(([cause, us]) => [time(us), share(us), cause]));
  const places = found.places.slice(0, MOST_PLACES);
  const rows = places.map(({ idle_us: us, times, cause, ...place }) => [time(us), share(us), times.toLocaleString("en"), cause, placeWords(place)]);
  const more = found.places.length - places.length;
  table(`Where to look${more > 0 ? ` (${more.toLocaleString("en")} more)` : ""}`, ["idle", "share", "times", "cause", "look at"], rows);
  const notes = add(shown, "ul", {});
  for (const note of found.notes) add(notes, "li", {}, note);
}

function placeWords({ place, function: name, operator }) {
  const line = place && `${place}: ${name === "<module>" ? "the module's own code" : `def ${name}`}`;
  return [line, operator].filter(Boolean).join(" at ") || "no place known";
}

function table(caption, headings, rows) {
  if (!rows.length) return;
  const whole = add(add(shown, "div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": caption }), "table", {});
  add(whole, "caption", {}, caption);
  const head = add(add(whole, "thead", {}), "tr", {});
  for (const heading of headings) add(head, "th", { scope: "col" }, heading);
  const body = add(whole, "tbody", {});
  for (const row of rows) {
    const cells = add(body, "tr", {});
    row.forEach((cell, at) => add(cells, "td", at < headings.indexOf("cause") ? { class: "figure" } : {}, cell));
  }
}
