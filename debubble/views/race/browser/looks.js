// Watches what a canvas can't: the size of its place, and light and dark.

/** Calls `redraw` after each change. Returns a function that ends that. */
export function whenLooksChange(place, redraw) {
  const sizes = new ResizeObserver(redraw), themes = new MutationObserver(redraw);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  sizes.observe(place);
  themes.observe(document.documentElement, { attributes: true });
  dark.addEventListener("change", redraw);
  return () => {
    sizes.disconnect();
    themes.disconnect();
    dark.removeEventListener("change", redraw);
  };
}
