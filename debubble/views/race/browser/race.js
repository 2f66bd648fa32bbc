// The race: two programs side by side, run at once, and drawn on one axis with a moment to move.
import { readAddress } from "./address.js";
import { Editor } from "./editor.js";
import { Figure } from "./figure.js";
import { whenLooksChange } from "./looks.js";
import { changes, momentOf, tellingMoment } from "./moment.js";
import { put, putButton } from "./nodes.js";
import { Panels } from "./panels.js";
import { Question } from "./question.js";
import { Sentence } from "./sentence.js";
import { simulate } from "./simulate.js";
import { Sender } from "./sender.js";
import { RACE_STYLE } from "./style.js";
import { counted, guiltyLines, inShort, inTime, sumUpRun } from "./sums.js";
import { isMended, staleWords, verdict, winners } from "./verdict.js";
import { putLegend, putWords } from "./words.js";

const NAMES = ["before", "after"];
const OWN = "Your own race: change a line and see where the GPU idles.";
const FOUND = "You found it: the bubble is gone.";
const RACE_MS = 4000;
const STEPS = 1000;
const { language: LANGUAGE, palette: PALETTE } = FACTS;

class Race {
  constructor(model, el) {
    this.hasAddress = model.get("address");
    this.pages = model.get("chapters") ?? {};
    this.told = new Set(); // the pairs whose answer the reader has seen
    this.runs = [null, null];
    this.sums = [null, null];
    this.now = 0;
    this.build(el);
    const chosen = LANGUAGE.pairs.find(({ chapter }) => chapter === model.get("pair"));
    this.begin(this.hasAddress ? readAddress(location.hash, LANGUAGE) : {}, chosen ?? LANGUAGE.pairs[0]);
    this.forget = whenLooksChange(this.canvas.parentElement, () => this.redraw());
    this.onHash = () => this.follow(readAddress(location.hash, LANGUAGE));
    if (this.hasAddress) addEventListener("hashchange", this.onHash);
  }

  remove() {
    this.forget();
    removeEventListener("hashchange", this.onHash);
    cancelAnimationFrame(this.frame);
    this.sender?.remove();
  }

  // ---- the page

  build(el) {
    this.root = put(el, "div", { class: "debubble-race" });
    put(this.root, "style", {}, RACE_STYLE);
    this.buildPairs();
    const top = put(this.root, "div", { class: "top" });
    this.playButton = putButton(top, "Race", null, () => (this.frame ? this.rest() : this.play()));
    this.playButton.classList.add("play");
    this.verdict = put(top, "p", { class: "verdict", role: "status" });
    this.question = new Question(this.root, (said) => this.tell(said));
    const sides = put(this.root, "div", { class: "sides" });
    this.editors = NAMES.map((name) => new Editor(sides, name, () => this.changed(null, { typed: true })));
    const stage = put(this.root, "div", { class: "stage" });
    this.canvas = put(stage, "canvas", { role: "img" });
    this.figure = new Figure(this.canvas, PALETTE);
    this.canvas.addEventListener("click", () => this.slider.focus());
    for (const kind of ["pointerdown", "pointermove"]) {
      this.canvas.addEventListener(kind, (event) => event.buttons && this.goTo(this.figure.timeAt(event.offsetX)));
    }
    this.buildControls();
    this.panels = NAMES.map((name) => new Panels(this.root, name, this.figure));
    this.legend = put(this.root, "div", { class: "legend" });
    putWords(this.root, LANGUAGE);
    this.root.addEventListener("keydown", (event) => event.stopPropagation());
  }

  buildPairs() {
    const box = put(this.root, "div", { class: "pairs", role: "group", "aria-label": "Ready pairs, one for each chapter" });
    this.pairButtons = LANGUAGE.pairs.map((pair) => {
      const button = putButton(box, `${pair.chapter} · ${pair.name}`, null, () => this.take(pair));
      button.setAttribute("aria-pressed", "false");
      return button;
    });
  }

  buildControls() {
    const box = put(this.root, "div", { class: "timebar", role: "group", "aria-label": "Time" });
    putButton(box, "‹", "Back to the change before", () => this.step(-1));
    putButton(box, "›", "On to the next change", () => this.step(1));
    this.slider = put(box, "input", { type: "range", min: "0", max: String(STEPS), "aria-label": "Moment" });
    this.slider.addEventListener("input", () => this.goTo((this.slider.value / STEPS) * this.length));
    this.slider.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) event.preventDefault(), this.step(by);
    });
    this.moment = put(box, "output", { class: "moment" });
    if (this.hasAddress) this.sender = new Sender(box, this);
    this.said = put(this.root, "p", { class: "said", role: "status" });
  }

  get texts() {
    return this.editors.map(({ text }) => text);
  }

  // ---- programs

  begin({ texts, pair, complaint }, otherwise) {
    if (texts) {
      NAMES.forEach((_, index) => (this.editors[index].text = texts[index]));
      this.taken = null;
      this.changed(null, { write: false });
    } else this.take(pair ?? otherwise, { write: false });
    this.say(complaint ? `${complaint} Here is the pair of chapter ${otherwise.chapter}.` : "");
  }

  /** Takes what a changed address holds. A refused address costs nothing more than its sentence. */
  follow(found) {
    if (found.complaint) this.say(`${found.complaint} The race stays as it is.`);
    else this.begin(found, this.pair ?? LANGUAGE.pairs[0]);
  }

  take(pair, { write = true } = {}) {
    NAMES.forEach((name, index) => (this.editors[index].text = pair[name]));
    this.taken = pair; // what the reader's changes began with
    this.changed(pair, { write });
  }

  /** Runs both programs, after a change of their texts. While one is typed, its last run stays: nothing
   * jumps at a mistake. */
  changed(pair, { write = true, typed = false } = {}) {
    this.stop();
    this.pair = pair;
    this.pairButtons.forEach((button, index) => {
      button.setAttribute("aria-pressed", String(LANGUAGE.pairs[index] === pair));
    });
    this.editors.forEach((editor, index) => this.runOne(editor, index, typed));
    this.length = Math.max(1, ...this.sums.map((sums) => sums?.length ?? 0));
    this.moments = changes(this.runs);
    this.sayVerdict();
    putLegend(this.legend, this.runs, this.figure);
    this.say("");
    this.askOrTell("");
    this.goTo(typed ? Math.min(this.now, this.length) : 0);
    if (write) this.sender?.writeSoon();
  }

  runOne(editor, index, typed) {
    let mistake = "";
    try {
      this.runs[index] = simulate(editor.text);
      this.sums[index] = sumUpRun(this.runs[index]);
    } catch (error) {
      if (!(error instanceof Sentence)) throw error;
      if (!typed) this.runs[index] = this.sums[index] = null;
      mistake = error.message;
    }
    editor.showMistake(mistake);
  }

  /** Says who wins. While a program has a mistake, its last run is shown, dimmed, and the headline says so. */
  sayVerdict() {
    const broken = NAMES.filter((_, index) => this.editors[index].isBroken && this.sums[index]);
    this.root.toggleAttribute("data-stale", broken.length > 0);
    this.verdict.textContent = broken.length ? staleWords(broken) : verdict(this.sums);
    const first = winners(this.sums);
    this.editors.forEach((editor, index) => editor.root.toggleAttribute("data-fastest", first[index] && !broken.length));
  }

  // ---- the question

  /** The lines of Before that a reader can look for: none in a program of the reader's own. */
  get guilty() {
    return this.pair && this.sums[0] ? guiltyLines(this.sums[0]) : [];
  }

  get asks() {
    return this.guilty.length > 0 && !this.told.has(this.pair);
  }

  tell(said) {
    this.told.add(this.pair);
    this.askOrTell(said);
    this.rest();
  }

  askOrTell(said) {
    if (this.asks) this.question.ask(this.editors[0].text, this.guilty, this.sums[0].byLine[0]);
    else if (this.hasMended) this.question.tell(FOUND, this.taken.lesson, this.link);
    else this.question.tell(said, this.pair?.lesson ?? OWN, this.link);
    this.editors.forEach((editor, index) => editor.describe(this.sums[index], { withLines: !this.asks }));
  }

  /** True if the reader changed Before alone, and it does After's work in After's time. */
  get hasMended() {
    const [before, after] = this.editors;
    const isOwn = this.taken && before.text !== this.taken.before && after.text === this.taken.after;
    return Boolean(isOwn && !before.isBroken && isMended(this.sums));
  }

  get link() {
    const { chapter } = (this.hasMended ? this.taken : this.pair) ?? {};
    const href = this.pages[chapter];
    return href ? { href, words: `Read chapter ${chapter}` } : null;
  }

  // ---- time

  play() {
    this.stop();
    this.say("");
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.rest();
    const began = performance.now();
    this.playButton.textContent = "Stop";
    const tick = () => {
      const share = Math.min(1, (performance.now() - began) / RACE_MS);
      if (share === 1) return this.rest();
      this.frame = requestAnimationFrame(tick);
      this.show(share * this.length);
    };
    this.frame = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.playButton.textContent = "Race";
  }

  /** Rests at the moment that says most, with the whole picture drawn. */
  rest() {
    const { time, words } = tellingMoment(this.runs[0], this.asks ? null : this.sums[0]?.byLine[0]?.line);
    this.goTo(time ?? this.length);
    this.say(words);
  }

  goTo(now) {
    this.stop();
    this.show(now);
  }

  step(by) {
    const all = this.moments;
    const next = by > 0 ? all.find((time) => time > this.now + 0.001) : all.findLast((time) => time < this.now - 0.001);
    this.goTo(next ?? (by > 0 ? this.length : 0));
  }

  show(now) {
    this.now = now;
    this.slider.value = String(Math.round((STEPS * now) / this.length));
    const parts = NAMES.map((name, index) => this.showSide(name, index));
    this.moment.textContent = inTime(now);
    this.slider.setAttribute("aria-valuetext", [`${inTime(now)} of ${inTime(this.length)}`, ...parts].filter(Boolean).join(". "));
    this.redraw();
  }

  showSide(name, index) {
    const run = this.runs[index];
    this.panels[index].root.hidden = !run;
    if (!run) return "";
    const at = momentOf(run, this.now);
    this.panels[index].show(at);
    if (!this.editors[index].isBroken) this.editors[index].light({ host: at.host.lines, device: at.device.lines });
    return `${name}: the host ${at.host.words}, ${counted(at.queue.length, "item")} queued, the GPU ${at.device.words}`;
  }

  redraw() {
    this.figure.draw(this.runs, this.length, this.now, Boolean(this.frame));
    const words = NAMES.map((name, index) => inShort(name, this.sums[index]));
    this.canvas.setAttribute("aria-label", `Two timelines on one axis. ${words.join(". ")}.`);
  }

  say(words) {
    this.said.textContent = words;
  }
}

export default {
  render({ model, el }) {
    const race = new Race(model, el);
    return () => race.remove();
  },
};
