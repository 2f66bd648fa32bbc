// Figures of a run beside those of the run before. Texts come from Python and are never markup.

export default {
  render({ model, el }) {
    const root = add(el, "div", { class: "debubble-figures" });
    add(root, "style", {}, STYLE);
    const table = add(root, "table", {});
    const draw = () => fill(table, model.get("content"));
    draw();
    model.on("change:content", draw);
    return () => model.off("change:content", draw);
  },
};

function fill(table, { caption, headings, groups }) {
  table.replaceChildren();
  add(table, "caption", {}, caption);
  const head = add(add(table, "thead", {}), "tr", {});
  for (const heading of headings) add(head, "th", { scope: "col" }, heading);
  for (const { heading, rows } of groups) {
    const body = add(table, "tbody", {});
    if (heading) {
      const across = { scope: "rowgroup", colspan: headings.length };
      add(add(body, "tr", {}), "th", across, heading);
    }
    for (const [label, ...cells] of rows) {
      const row = add(body, "tr", cells.at(-1) ? { class: "changed" } : {});
      add(row, "th", { scope: "row" }, label);
      for (const cell of cells) add(row, "td", {}, cell);
    }
  }
}

function add(parent, tag, attributes, text = null) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

// Nested below our own class: nothing of it reaches the page around.
const STYLE = `
.debubble-figures {
  color: var(--jp-ui-font-color1, var(--vscode-foreground, CanvasText));
  font: 12px/1.45 var(--jp-ui-font-family, system-ui, sans-serif);
  padding: 4px 2px;
  table { border-collapse: collapse; width: 100%; font-size: 12px; }
  caption { text-align: left; padding: 2px 0 4px; font-weight: 600; }
  th, td { padding: 1px 0 1px 10px; font-weight: 400; text-align: right; white-space: nowrap; }
  th { text-align: left; padding-left: 0; }
  td { font-variant-numeric: tabular-nums; }
  thead th { font-weight: 600; border-bottom: 1px solid rgba(128,128,128,.4); }
  thead th:not(:first-child) { text-align: right; padding-left: 10px; }
  th[scope=rowgroup] { font-weight: 600; padding-top: 7px; }
  .changed td:nth-child(n+3) { font-weight: 600; }
}
`;
