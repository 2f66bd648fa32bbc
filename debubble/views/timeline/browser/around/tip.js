// The description of the hovered target, in a box that no output area cuts off.
import { add } from "../words.js";

export class Tip {
  /** A popover lies above the page, wherever in it the canvas is. */
  constructor(parent, canvas, letGo) {
    this.canvas = canvas;
    this.letGo = letGo;
    this.box = add(parent, "div", { class: "tip", popover: "manual" });
    this.onScroll = () => this.place();
    addEventListener("scroll", this.onScroll, { capture: true, passive: true });
  }

  remove() {
    removeEventListener("scroll", this.onScroll, { capture: true });
  }

  /** lines: a title and what follows, code after "› "; (x, y): the place on the canvas. */
  show(lines, x, y) {
    this.at = [x, y];
    if (this.lines !== lines.join("\n")) {
      this.lines = lines.join("\n");
      const [title, ...rest] = lines;
      this.box.replaceChildren();
      add(this.box, "b", {}, title);
      for (const line of rest) {
        const code = line.startsWith("› ");
        add(this.box, "div", { class: code ? "code" : "" }, code ? line.slice(2) : line);
      }
    }
    if (!this.isOpen) this.box.showPopover();
    this.place();
  }

  hide() {
    this.at = null;
    if (this.isOpen) this.box.hidePopover();
  }

  /** Never before the box is in the document: JupyterLab draws a view first and shows it then, and
   * a popover that is in no document can be neither shown nor hidden. */
  get isOpen() {
    return this.box.matches(":popover-open");
  }

  /** Moves the box below and right of its place, or where the window has room for it. */
  place() {
    if (!this.at) return;
    const canvas = this.canvas.getBoundingClientRect();
    if (canvas.bottom < 0 || canvas.top > innerHeight) return this.letGo();
    const { offsetWidth: width, offsetHeight: height } = this.box;
    const within = (place, room) => `${Math.max(Math.min(place, room - 4), 4)}px`;
    const y = canvas.top + this.at[1];
    const top = y + 18 + height <= innerHeight - 4 ? y + 18 : y - 10 - height;
    const room = document.documentElement.clientWidth - width;
    this.box.style.left = within(canvas.left + this.at[0] + 14, room);
    this.box.style.top = within(top, innerHeight - height);
  }
}
