// Folded parts: a link to what lies in one opens it, and so does print.
import { targetOf } from "./target.js";

export function openForLinks() {
  addEventListener("hashchange", openTarget);
  document.addEventListener("click", ({ target }) => {
    if (target.closest?.("a[href]")?.href === location.href) openTarget();
  });
  openTarget();
}

/** Opens the folded parts around the target of the page's address, and scrolls to it. */
function openTarget() {
  const target = targetOf(location.hash);
  const closed = [];
  for (let box = target?.closest("details"); box; box = box.parentElement.closest("details")) {
    if (!box.open) closed.push(box);
  }
  for (const box of closed) box.open = true;
  if (closed.length) target.scrollIntoView();
}

/** Paper has no folds. */
export function openForPrint() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not([open])")];
    for (const box of opened) box.open = true;
  });
  addEventListener("afterprint", () => opened.forEach((box) => (box.open = false)));
}
