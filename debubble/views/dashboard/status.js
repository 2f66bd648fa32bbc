// What a dashboard is doing, in words. The text comes from Python and is never markup.

export default {
  render({ model, el }) {
    const style = document.createElement("style");
    style.textContent = STYLE;
    // The same element all the time: only then do screen readers notice a new text.
    const line = document.createElement("p");
    line.className = "debubble-status";
    line.setAttribute("role", "status");
    const figure = document.createElement("p");
    figure.className = "debubble-leading";
    el.append(style, figure, line);
    const lead = () => showLeading(figure, model.get("leading") ?? []);
    lead();
    model.on("change:leading", lead);
    const say = () => {
      const { state, text } = model.get("line");
      line.dataset.state = state;
      line.textContent = text;
    };
    say();
    model.on("change:line", say);
    return () => {
      model.off("change:line", say);
      model.off("change:leading", lead);
    };
  },
};

/** Shows "560 → 2,361 tokens/s, 4.22 × as many": the value before, the value now, what it is. */
function showLeading(node, [name, before, now, change]) {
  node.replaceChildren();
  if (name === undefined) return;
  const put = (tag, words) => {
    const part = document.createElement(tag);
    part.textContent = words;
    node.append(part);
  };
  if (before) {
    put("s", before);
    node.append(" → ");
  }
  put("b", now);
  put("span", ` ${name}`);
  if (change) put("span", `, ${change}`);
}

const STYLE = `
.debubble-leading {
  color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
  font: 15px/1.3 var(--jp-ui-font-family, system-ui, sans-serif);
  margin: 6px 2px 4px;
  b, s { font-size: 26px; font-variant-numeric: tabular-nums; }
  s { font-weight: 400; text-decoration: none; }
}
.debubble-old { opacity: .5; }
.debubble-status {
  color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
  font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif);
  margin: 4px 2px; padding: 3px 10px; white-space: pre-line; overflow-wrap: anywhere;
  border-left: 4px solid var(--jp-border-color1, rgba(128,128,128,.5));
  &[data-state=running] { border-left: 4px dotted #2b8fd0; font-style: italic; }
  &[data-state=failed] { border-left: 4px double #d55e00; }
}
`;
