// Asks for the line that makes the bubbles, and says nothing of it before the reader has looked.
import { mainCause } from "./causes.js";
import { put, putButton } from "./nodes.js";
import { codeOf } from "./sums.js";

export class Question {
  /** `onTold` is called once the reader has found the line, or asks for it. */
  constructor(parent, onTold) {
    this.onTold = onTold;
    this.root = put(parent, "div", { class: "ask" });
    this.words = put(this.root, "span", { role: "status" });
    this.answers = put(this.root, "span", { class: "answers", role: "group", "aria-label": "Lines of Before" });
  }

  /** Asks about the program `text`, in which the lines `guilty` are right. `worst` is the idle time of the
   * first of them. */
  ask(text, guilty, worst) {
    this.guilty = guilty;
    this.hint = mainCause(worst).hint;
    this.words.textContent = "Which line of Before keeps the GPU idle for the longest time?";
    this.answers.replaceChildren();
    text.split("\n").forEach((_, index) => this.putAnswer(index + 1, codeOf(index + 1, text)));
    putButton(this.answers, "Show it", null, () => this.onTold(""));
  }

  putAnswer(line, words) {
    if (!words) return;
    const button = putButton(this.answers, String(line), `Line ${line}: ${words}`, () => this.take(line, button));
  }

  take(line, button) {
    if (this.guilty.includes(line)) return this.onTold(`Line ${line} is right.`);
    button.disabled = true;
    this.words.textContent = `Not line ${line}. Race them: ${this.hint}`;
  }

  /** Shows the lesson instead of the question, after what is said of the answer. `link` is {href, words} of a page that goes on, or null. */
  tell(said, lesson, link) {
    this.answers.replaceChildren();
    this.words.textContent = `${said} ${lesson} `.trimStart();
    if (link) put(this.answers, "a", { href: link.href }, link.words);
  }
}
