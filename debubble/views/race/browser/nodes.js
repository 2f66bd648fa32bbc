// New nodes of the page; text is never markup.

export function put(parent, tag, attributes = {}, text = null) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

export function putButton(parent, words, name, onClick) {
  const button = put(parent, "button", { type: "button", ...(name ? { "aria-label": name, title: name } : {}) }, words);
  button.addEventListener("click", onClick);
  return button;
}
