// The live views of a page: the browser's parts of the widgets, on what was recorded before. Each
// calls `tell` with words for its state when a reader changes it, and returns `show`, which takes
// such words from an address. It returns false for words that are no state of this view.
import { Model } from "./model.js";
import { showDashboard } from "./dashboard.js";
import { add } from "./nodes.js";

export const VIEWS = { timeline, explorer, drawing, question, dashboard: showDashboard };

const PART = /^(-?\d{1,12}(?:\.\d{1,3})?)\.\.(\d{1,12}(?:\.\d{1,3})?)$/;

function timeline(el, { states: [state] }, tell) {
  WIDGETS.timeline.render({ model: new Model(state), el });
  const root = el.querySelector(".debubble-timeline");
  const partOf = ({ start, end }) => (start ? `${start}..${end}` : null);
  let everything = null, part = null;
  new MutationObserver(() => {
    const now = partOf(root.dataset);
    everything ??= now;
    if (now === (part ?? everything)) return;
    part = now;
    tell(part === everything ? "" : part);
  }).observe(root, { attributes: true, attributeFilter: ["data-start", "data-end"] });
  return (words) => {
    const [start, end] = (PART.exec(words) ?? []).slice(1).map(Number);
    if (!(start < end)) return false;
    root.dispatchEvent(new CustomEvent("debubble-show", { detail: [start, end] }));
    return true;
  };
}

/** A timeline on which the reader marks the answer to the question of the form with this id: the
 * mark fills the form's field, in milliseconds. */
function question(el, { states: [state] }) {
  const { asks } = el.closest("[data-asks]").dataset;
  const field = document.querySelector(`.question[data-id="${asks}"] input[name=said]`);
  const model = new Model({ ...state, mark: [], disabled: field.disabled });
  WIDGETS.timeline.render({ model, el });
  model.on("change:mark", () => {
    if (field.disabled) return;
    field.value = model.get("mark").map((moment) => (moment / 1000).toFixed(2)).join(" to ");
  });
  return () => false;
}

/** A slider over recordings. */
function explorer(el, { slider, states }, tell) {
  const handle = new Model(slider);
  const shown = () => states[slider.options.indexOf(handle.get("value"))];
  const model = new Model({ ...shown() });
  WIDGETS.slider.render({ model: handle, el });
  WIDGETS.timeline.render({ model, el });
  handle.on("change:value", () => {
    model.set(shown());
    tell(valuesOf([handle]));
  });
  return (words) => setValues([handle], words);
}

const valuesOf = (handles) => handles.map((handle) => handle.get("value")).join(",");

/** Sets sliders to values such as "4,8"; false if one of them has no such value. */
export function setValues(handles, words) {
  const values = words.split(",").map(Number);
  const fits = handles.every((handle, index) => handle.get("options").includes(values[index]));
  if (!fits || values.length !== handles.length) return false;
  handles.forEach((handle, index) => handle.set("value", values[index]));
  return true;
}

/** Sliders over a picture. A script draws it for all values, or it was drawn with one slider moved and
 * the others where they began. */
function drawing(el, header, tell) {
  return (Object.hasOwn(DRAWINGS, header.script ?? "") ? drawn : stored)(el, header, tell);
}

function drawn(el, { sliders, script }, tell) {
  const handles = sliders.map((slider) => new Model({ unit: "", ...slider }));
  for (const model of handles) WIDGETS.slider.render({ model, el });
  const image = add(el, "img", {});
  const show = () => {
    const values = handles.map((handle, index) => [sliders[index].name, handle.get("value")]);
    const { svg, words, width } = DRAWINGS[script].draw(Object.fromEntries(values));
    Object.assign(image, { alt: words, width, src: `data:image/svg+xml;utf8,${encodeURIComponent(svg)}` });
  };
  for (const handle of handles) {
    handle.on("change:value", () => {
      show();
      tell(valuesOf(handles));
    });
  }
  show();
  return (words) => setValues(handles, words);
}

function stored(el, { sliders, pictures }) {
  const handles = sliders.map((slider) => new Model({ unit: "", ...slider }));
  if (sliders.length > 1) {
    const words = "On this page only one slider moves at a time. In JupyterLab all of them move.";
    add(el, "p", { class: "note" }, words);
  }
  for (const model of handles) WIDGETS.slider.render({ model, el });
  const image = add(el, "img", {});
  const show = (key) => {
    const { svg, alt, width } = pictures[key];
    Object.assign(image, { alt, width, src: `data:image/svg+xml;utf8,${encodeURIComponent(svg)}` });
  };
  const first = sliders.map(({ value }) => value);
  handles.forEach((handle, number) => {
    handle.on("change:value", () => {
      const value = handle.get("value");
      if (value === first[number]) {
        if (handles.every((other, index) => other.get("value") === first[index])) show("");
        return;
      }
      handles.forEach((other, index) => index !== number && other.set("value", first[index]));
      show(`${sliders[number].name} ${value}`);
    });
  });
  show("");
  return (words) => setValues(handles, words);
}
