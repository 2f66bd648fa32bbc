// Questions: what follows one is kept back until the reader has committed to an answer.
import { add } from "./nodes.js";
import { forget, keepWords, recallWords } from "./stored.js";
import { targetOf } from "./target.js";

const NUMBER = "[-−]?(?:\\d{1,3}(?:,\\d{3})+|\\d+)(?:\\.\\d+)?";
const RANGE = new RegExp(`^(?:from\\s+)?(${NUMBER})\\s*(?:(?:-|–|\\.\\.|to)\\s*(${NUMBER})\\s*)?$`);
const FIRST_NUMBER = new RegExp(`^${NUMBER}`);
const PLACE = `debubble ${location.pathname}`;

export function watchQuestions() {
  const said = recallWords(PLACE);
  for (const form of document.querySelectorAll(".question")) {
    const { id } = form.dataset;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const words = read(form);
      if (!words) return;
      said[id] = words;
      keepWords(PLACE, said);
      open(form, said);
    });
    form.querySelector("[data-skip]").addEventListener("click", () => {
      said[id] ??= "";
      keepWords(PLACE, said);
      open(form, said);
    });
    if (id in said) open(form, said);
  }
  for (const button of document.querySelectorAll("[data-open-all]")) {
    button.addEventListener("click", () => {
      document.querySelectorAll(".behind").forEach((box) => box.classList.add("open"));
    });
  }
  document.querySelector("[data-begin-again]")?.addEventListener("click", () => {
    forget(PLACE);
    location.hash = "";
    location.reload();
  });
  addEventListener("hashchange", leadToQuestion);
  leadToQuestion();
  sumUp(said);
}

/** A link into what is kept back leads to the question before it. */
function leadToQuestion() {
  const target = targetOf(location.hash);
  const closed = target && [...document.querySelectorAll(".behind:not(.open)")].find((box) => box.contains(target));
  if (!closed) return;
  const form = document.querySelector(`.question[data-id="${closed.dataset.behind}"]`);
  form.querySelector(".verdict").textContent = "The section that you chose comes after this question.";
  form.scrollIntoView();
}

/** The answer in the fields, or "" after a sentence if they have none. */
function read(form) {
  const chosen = form.querySelector("input[type=radio]:checked");
  if (chosen) return chosen.value;
  const field = form.querySelector("input[name=said]");
  const say = (words) => (form.querySelector(".verdict").textContent = words);
  if (!field) return say("Nothing is chosen: choose an answer."), "";
  const words = field.value.trim();
  const wrong = refusal(words, unitOf(form.dataset.id));
  if (wrong) return say(wrong), "";
  return words;
}

/** The unit of a question, from its answer such as "10 waits". */
function unitOf(id) {
  const answer = document.querySelector(`[data-answers="${id}"]`)?.dataset.answer ?? "";
  return answer.split("\n")[0].replace(FIRST_NUMBER, "").trim();
}

/** [low, high] of a number or a range, with or without the unit, or null for any other text. The
 * same rule holds in JupyterLab (views/prediction/number.py). */
export function rangeOf(words, unit = "") {
  const found = RANGE.exec(words.trim().replace(new RegExp(`${unit}$`), "").trim());
  return found && [found[1], found[2] ?? found[1]].map(toNumber);
}

/** A sentence that says why `words` are no answer, or "". */
export function refusal(words, unit = "") {
  const range = rangeOf(words, unit);
  if (range && range[0] > range[1]) {
    return `${range[0]} to ${range[1]} contains no number: begin with the smaller.`;
  }
  if (range) return "";
  const what = words ? `“${words}” is no answer` : "The field is empty";
  return `${what}: write a number such as 7, or a range such as 5 to 9.`;
}

function open(form, said) {
  const { id } = form.dataset;
  const words = said[id] ? `You say ${said[id]}. Read on.` : "Shown without a prediction.";
  form.querySelector(".verdict").textContent = words;
  for (const control of form.querySelectorAll("input, button")) control.disabled = true;
  document.querySelector(`[data-behind="${id}"]`).classList.add("open");
  for (const note of document.querySelectorAll(`[data-answers="${id}"]`)) {
    note.textContent = judge(said[id], note.dataset.answer);
  }
  sumUp(said);
}

/** Compares the prediction with the first line of the chapter's answer. */
export function judge(words, answer) {
  const right = answer.split("\n")[0];
  if (!words) return "";
  if (words === right) return `You said ${words}. That is right.`;
  const number = FIRST_NUMBER.exec(right);
  const range = rangeOf(words, right.replace(FIRST_NUMBER, "").trim());
  if (!range || !number) return `You said ${words}. What did you miss?`;
  const value = toNumber(number[0]), [low, high] = range;
  if (value < low || value > high) return `You said ${words}. What did you miss?`;
  return `You said ${words}. ${low === high ? "That is right." : "It is within your range."}`;
}

function toNumber(words) {
  return Number(words.replaceAll(",", "").replace("−", "-"));
}

/** The table at a chapter's end: each question, its prediction and its answer. */
function sumUp(said) {
  for (const box of document.querySelectorAll("[data-summary]")) {
    box.replaceChildren();
    const table = add(box, "table", {});
    const head = add(add(table, "thead", {}), "tr", {});
    for (const words of ["question", "you said", "it was"]) add(head, "th", { scope: "col" }, words);
    const body = add(table, "tbody", {});
    for (const form of document.querySelectorAll(".question")) {
      const { id } = form.dataset;
      const note = document.querySelector(`[data-answers="${id}"]`);
      const row = add(body, "tr", {});
      const question = form.querySelector("p").textContent.replace("Predict:", "").trim();
      add(row, "th", { scope: "row" }, question);
      add(row, "td", {}, said[id] || "–");
      add(row, "td", {}, id in said ? note?.dataset.answer.split("\n")[0] ?? "" : "commit first");
    }
  }
}
