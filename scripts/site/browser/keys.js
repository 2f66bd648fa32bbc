// The keyboard and the menu of small screens.

const EDITABLE = "input, textarea, select, [contenteditable], canvas, [role=slider]";

export function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.(EDITABLE)) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    }
    const side = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    // On the first page arrows belong to the race's marker.
    const hasRace = document.querySelector("[data-race][data-address]");
    const isFree = !hasRace && (event.target === document.body || event.target.id === "main");
    if (side && isFree) document.querySelector(`footer [rel=${side}]`)?.click();
  });
}

export function watchMenu() {
  const button = document.querySelector("[data-menu]");
  button?.addEventListener("click", () => {
    const isOpen = document.body.classList.toggle("with-menu");
    button.setAttribute("aria-expanded", String(isOpen));
  });
  const here = document.querySelector("#book [aria-current]");
  here?.scrollIntoView({ block: "nearest" });
  scrollTo(0, scrollY);
}
