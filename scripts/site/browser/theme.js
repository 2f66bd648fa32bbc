// The theme: the browser's, or light or dark by the reader's choice.

const THEMES = ["auto", "light", "dark"];
const THEME_PLACE = "debubble theme";

export function watchTheme() {
  const button = document.querySelector("[data-theme-switch]");
  if (!button) return;
  const { dataset } = document.documentElement;
  const say = () => (button.textContent = `Theme: ${dataset.theme ?? "auto"}`);
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(dataset.theme ?? "auto") + 1) % THEMES.length];
    if (next === "auto") delete dataset.theme;
    else dataset.theme = next;
    try {
      localStorage.setItem(THEME_PLACE, next);
    } catch {
      // A page without storage keeps the theme until it is left.
    }
    say();
  });
  say();
}
