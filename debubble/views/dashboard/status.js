// What a dashboard is doing, in words. The text comes from Python and is never markup.

export default {
  render({ model, el }) {
    const style = document.createElement("style");
    style.textContent = STYLE;
    // The same element all the time: only then do screen readers notice a new text.
    const line = document.createElement("p");
    line.className = "debubble-status";
    line.setAttribute("role", "status");
    el.append(style, line);
    const say = () => {
      const { state, text } = model.get("line");
      line.dataset.state = state;
      line.textContent = text;
    };
    say();
    model.on("change:line", say);
    return () => model.off("change:line", say);
  },
};

const STYLE = `
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
