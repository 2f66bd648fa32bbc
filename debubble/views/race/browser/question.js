// Asks for the line that makes the bubbles, and says nothing of it before the reader has looked.
import { put, putButton } from "./nodes.js";
import { codeOf, mainCause } from "./sums.js";

/** What to look at after a wrong guess, by the cause of the idle time. */
const HINTS = {
  wait: "what does the host do before each gap?",
  python: "what does the host do before each gap?",
  launch: "which takes longer, a kernel or its launch?",
  copy: "what else does the GPU do while it computes nothing?",
  other: "what comes before each gap?",
};

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
    this.hint = HINTS[mainCause(worst)];
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

  /** Shows the lesson instead of the question. `link` is {href, words} of a page that goes on, or null. */
  tell(verdict, lesson, link) {
    this.answers.replaceChildren();
    this.words.textContent = `${verdict} ${lesson} `.trimStart();
    if (link) put(this.answers, "a", { href: link.href }, link.words);
  }
}
