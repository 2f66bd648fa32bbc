// The sums of a marked stretch of time, before and after side by side.
import { add, addButton, time } from "../words.js";
import { sums } from "../recording/sums.js";

export class Area {
  constructor(parent, letGo) {
    this.letGo = letGo;
    this.box = add(parent, "div", { class: "sums", hidden: "" });
  }

  hide() {
    this.box.hidden = true;
    this.box.replaceChildren();
  }

  /** The marked area and its first sums, in the words of the table. */
  inWords() {
    const rows = [...this.box.querySelectorAll("tbody tr")].slice(0, 2);
    const cells = (row) => [...row.children].map((cell) => cell.textContent).filter(Boolean);
    const caption = this.box.querySelector("caption").firstChild.textContent.trim();
    return [caption, ...rows.map((row) => cells(row).join(" "))].join(", ");
  }

  /** recordings: "after", or "before" and "after". */
  show([start, end], recordings) {
    this.box.hidden = false;
    this.box.replaceChildren();
    const table = add(this.box, "table", {});
    const caption = add(table, "caption", {});
    caption.append(`${time(end - start)} marked, from ${time(start)} to ${time(end)} `);
    addButton(caption, "Clear", "Clear the marked area", this.letGo);
    const head = add(add(table, "thead", {}), "tr", {});
    const names = recordings.map(({ which }) => (recordings.length > 1 ? `${which}: ` : ""));
    const headings = names.flatMap((name) => [`${name}count`, `${name}time`]);
    for (const words of ["What", ...headings]) add(head, "th", { scope: "col" }, words);
    const body = add(table, "tbody", {});
    for (const [words, ...cells] of rowsOf(start, end, recordings)) {
      const row = add(body, "tr", {});
      add(row, "th", { scope: "row" }, words);
      for (const cell of cells) add(row, "td", {}, cell);
    }
  }
}

function rowsOf(start, end, recordings) {
  const found = recordings.map((recording) => sums(recording, start, end));
  const rows = [];
  const addRow = (words, pick) => {
    const cells = found.map(pick);
    if (cells.every((cell) => !cell)) return;
    rows.push([words, ...cells.flatMap((cell) => cell ?? ["–", "–"])]);
  };
  const written = ([, count, us]) => [count.toLocaleString("en"), time(us)];
  addRow("device computes", ({ computing }) => ["", time(computing)]);
  addRow("device idle", ({ idle }) => ["", time(idle)]);
  recordings[0].causes.forEach(({ words }, cause) => {
    addRow(`idle: ${words}`, ({ causes }) => {
      const sum = causes.find(([index]) => index === cause);
      return sum && written(sum);
    });
  });
  recordings[0].kinds.forEach(({ words }, kind) => {
    addRow(words, ({ kinds }) => {
      const sum = kinds.find(([index]) => index === kind);
      return sum && written(sum);
    });
  });
  return rows;
}
