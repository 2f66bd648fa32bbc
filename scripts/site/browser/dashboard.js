// An engine's panel over runs that were recorded before.
import { Model } from "./model.js";
import { add } from "./nodes.js";

/** runs: keys of settings, each with its figures; the timeline of each has its place. A control that
 * leads to what was not recorded goes back, so that controls and picture are always of one run. */
export function showDashboard(el, { toggles, presets, sliders, start, runs, states }, tell) {
  const controls = add(el, "div", { class: "controls" });
  let shown = start;
  const boxes = Object.entries(toggles).map(([name, words]) => {
    const label = add(controls, "label", {});
    const box = add(label, "input", { type: "checkbox", value: name });
    label.append(` ${words}`);
    box.addEventListener("change", turn);
    return box;
  });
  const row = add(el, "div", { class: "presets", role: "group", "aria-label": "Switches at a click" });
  for (const [words, on] of Object.entries(presets ?? {})) {
    const button = add(row, "button", { type: "button" });
    button.textContent = words;
    button.addEventListener("click", () => {
      for (const box of boxes) box.checked = on.includes(box.value);
      turn();
    });
  }
  const handles = sliders.map((slider) => new Model({ ...slider }));
  for (const handle of handles) {
    WIDGETS.slider.render({ model: handle, el: controls });
    handle.on("change:value", turn);
  }
  const status = new Model({ line: { state: "shown", text: `Shown: ${runs[start].words}` }, leading: leadingOf(runs[start], null) });
  const figures = new Model({ content: contentOf(runs[start], null) });
  const model = new Model({ ...states[runs[start].state] });
  WIDGETS.status.render({ model: status, el });
  WIDGETS.timeline.render({ model, el });
  WIDGETS.figures.render({ model: figures, el });
  settle();
  return ask;

  /** Shows settings such as "pinned,graph;4,8"; false if they are none of this panel. */
  function ask(words) {
    const [names, values, ...more] = words.split(";");
    const on = names.split(",").filter(Boolean), numbers = values?.split(",").map(Number) ?? [];
    const fits = handles.every((handle, index) => handle.get("options").includes(numbers[index]));
    const isKnown = on.every((name) => boxes.some(({ value }) => value === name));
    if (more.length || !fits || !isKnown || numbers.length !== handles.length) return false;
    for (const box of boxes) box.checked = on.includes(box.value);
    handles.forEach((handle, index) => (handle.values.value = numbers[index]));
    turn();
    settle();
    return true;
  }

  function settle() {
    const { on, values } = runs[shown];
    for (const box of boxes) box.checked = on.includes(box.value);
    handles.forEach((handle, index) => (handle.values.value = values[index]));
    handles.forEach((handle) => handle.set("value", handle.get("value")));
  }

  function turn() {
    const on = boxes.filter((box) => box.checked).map((box) => box.value);
    const wanted = JSON.stringify([on, handles.map((handle) => handle.get("value"))]);
    if (wanted === shown) return;
    const run = runs[wanted], before = runs[shown];
    if (!run) {
      settle();
      const text = `These settings were not recorded for this page. Shown: ${runs[shown].words}`;
      return status.set("line", { state: "failed", text });
    }
    shown = wanted;
    tell([run.on.join(","), run.values.join(",")].join(";"));
    const [state, ghost] = [states[run.state], states[before.state]];
    model.set({
      events: state.events,
      bubbles: state.bubbles,
      ghost_events: ghost.events,
      ghost_bubbles: ghost.bubbles,
      facts: { ...state.facts, before: ghost.facts.after },
    });
    figures.set("content", contentOf(run, before));
    status.set({ line: { state: "shown", text: `Shown: ${run.words}` }, leading: leadingOf(run, before) });
  }
}

/** The table's content: the figures of a run and of the run before. */
function contentOf(run, before) {
  const groups = run.groups.map(({ heading, unit, rows }, group) => ({
    heading,
    rows: rows.map(([label, text, value], row) => {
      const old = before?.groups[group].rows[row];
      return [label, old ? old[1] : "–", text, old ? change(value, old[2], unit) : ""];
    }),
  }));
  return { caption: run.source, headings: ["figure", "before", "after", "change"], groups };
}

/** The first figure of a run and of the run before, as debubble/views/dashboard/table.py has it. */
function leadingOf(run, before) {
  const row = run.groups.find(({ heading }) => !heading)?.rows[0];
  if (!row) return [];
  const [name, now, value] = row;
  const old = before?.groups.find(({ heading }) => !heading)?.rows[0];
  return old?.[2] ? [name, old[1], now, `× ${(value / old[2]).toFixed(2)}`] : [name, "", now, ""];
}

function change(now, then, unit) {
  const difference = unit === "%" ? Math.round(100 * (now / then - 1)) : Math.round(now - then);
  if (!Number.isFinite(difference) || !difference) return "";
  const words = Math.abs(difference).toLocaleString("en");
  return `${difference < 0 ? "−" : "+"}${words}${unit}`;
}
