// A table of the events in view, or of the matches of a search among them.
import { add, addButton, time } from "../words.js";

const PAGE = 100;

export class Table {
  constructor(parent, id, view) {
    this.view = view;
    this.page = 0;
    this.box = add(parent, "div", { class: "table", id, hidden: "", tabindex: "0", role: "group" });
    this.box.setAttribute("aria-label", "Events and bubbles in view");
  }

  toggle() {
    this.box.hidden = !this.box.hidden;
    this.shown = null;
    return !this.box.hidden;
  }

  /** Fills the table again only if its content would change. */
  fill() {
    if (this.box.hidden) return;
    const { view } = this;
    const key = () => `${view.seen.range} ${this.page} ${view.revision} ${view.asked.which}`;
    if (this.shown === key()) return;
    const { asked } = view;
    let seen = asked.targetsIn(...view.seen.range);
    if (view.search.found) seen = seen.filter((target) => view.search.found.has(target));
    const pages = Math.max(Math.ceil(seen.length / PAGE), 1);
    this.page = Math.min(this.page, pages - 1);
    this.shown = key();
    const from = this.page * PAGE;
    const rows = seen.slice(from, from + PAGE);
    const active = document.activeElement;
    const held = this.box.contains(active) ? active.getAttribute("aria-label") : null;
    this.box.replaceChildren();
    const table = add(this.box, "table", {});
    const words = seen.length ? `${from + 1} to ${from + rows.length} of ${seen.length}` : "none";
    const of = asked.which === "before" ? `before, ${asked.facts.label}` : asked.facts.label;
    add(table, "caption", {}, `Events and bubbles in view: ${words} (${of})`);
    const head = add(add(table, "thead", {}), "tr", {});
    for (const name of ["Start", "Duration", "Lane", "What", "Source line"]) {
      add(head, "th", { scope: "col" }, name);
    }
    const body = add(table, "tbody", {});
    for (const target of rows) this.addRow(body, asked, target);
    if (pages > 1) this.addPager(pages, held);
  }

  addRow(body, asked, target) {
    const row = add(body, "tr", {});
    const [from, to] = asked.spanOf(target);
    const [lane, name, source] = asked.about(target);
    const [where, text] = source < 0 ? ["", ""] : asked.facts.sources[source];
    add(row, "td", {}, time(from));
    add(row, "td", {}, time(to - from));
    add(row, "td", {}, lane);
    add(row, "th", { scope: "row" }, name);
    add(row, "td", {}, text ? `${where}: ${text}` : where);
    row.addEventListener("click", () => {
      this.view.select(target);
      this.view.seen.reveal(...this.view.asked.spanOf(target));
    });
  }

  addPager(pages, held) {
    const turn = (by) => {
      this.page = Math.min(Math.max(this.page + by, 0), pages - 1);
      this.view.redraw();
    };
    const pager = add(this.box, "div", { class: "pager" });
    const earlier = addButton(pager, "‹ earlier", "Earlier events", () => turn(-1));
    const later = addButton(pager, "later ›", "Later events", () => turn(1));
    earlier.disabled = this.page === 0;
    later.disabled = this.page === pages - 1;
    // The button that was pressed has been replaced: stay where the reader was.
    if (held === "Earlier events") (earlier.disabled ? later : earlier).focus();
    if (held === "Later events") (later.disabled ? earlier : later).focus();
  }
}
