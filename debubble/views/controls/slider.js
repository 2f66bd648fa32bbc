// A slider over some whole numbers, with its label, its value and its unit.

export default {
  render({ model, el }) {
    const id = `debubble-slider-${Math.random().toString(36).slice(2)}`;
    const root = add(el, "div", { class: "debubble-slider" });
    add(root, "style", {}, STYLE);
    add(root, "label", { for: id }, model.get("label"));
    const handle = add(root, "input", { type: "range", id, min: 0, step: 1 });
    const shown = add(root, "output", { for: id });
    const read = () => {
      const options = model.get("options"), value = model.get("value"), unit = model.get("unit");
      handle.max = options.length - 1;
      handle.value = options.indexOf(value);
      shown.textContent = unit ? `${value.toLocaleString("en")} ${unit}` : value.toLocaleString("en");
      handle.setAttribute("aria-valuetext", shown.textContent);
    };
    read();
    handle.addEventListener("input", () => {
      model.set("value", model.get("options")[Number(handle.value)]);
      model.save_changes();
      read();
    });
    // A notebook has keys of its own: what moves the handle does nothing else.
    handle.addEventListener("keydown", (event) => event.stopPropagation());
    model.on("change:value", read);
    return () => model.off("change:value", read);
  },
};

function add(parent, tag, attributes, text = null) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

const STYLE = `
.debubble-slider {
  color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
  font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif);
  display: flex; flex-wrap: wrap; gap: 0 12px; align-items: center; padding: 2px;
  max-width: 46em;
  label { flex: 0 1 14em; }
  input {
    flex: 1 1 220px; min-width: 180px; margin: 4px 0; cursor: pointer;
    accent-color: var(--jp-brand-color1, #1976d2);
  }
  input:focus-visible {
    outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 2px; border-radius: 4px;
  }
  output { flex: 0 0 7em; white-space: nowrap; font-variant-numeric: tabular-nums; font-weight: 600; }
}
`;
