// The race: two programs side by side, run at once, and drawn on one axis with a moment to move.
import { addressOf, readAddress, writeAddress } from "./address.js";
import { Editor } from "./editor.js";
import { Figure } from "./figure.js";
import { changes, momentOf } from "./moment.js";
import { put, putButton } from "./nodes.js";
import { Panels } from "./panels.js";
import { Sentence } from "./sentence.js";
import { simulate } from "./simulate.js";
import { RACE_STYLE } from "./style.js";
import { counted, inTime, sumUpRun, verdict, worstLine } from "./sums.js";
import { putLegend, putWords } from "./words.js";

const NAMES = ["before", "after"];
const RACE_MS = 4000;
const STEPS = 1000;
const { language: LANGUAGE, palette: PALETTE } = FACTS;

class Race {
  constructor(model, el) {
    this.hasAddress = model.get("address");
    this.runs = [null, null];
    this.sums = [null, null];
    this.now = 0;
    this.build(el);
    const chosen = LANGUAGE.pairs.find(({ chapter }) => chapter === model.get("pair"));
    this.begin(this.hasAddress ? readAddress(location.hash, LANGUAGE) : {}, chosen ?? LANGUAGE.pairs[0]);
    this.onResize = new ResizeObserver(() => this.redraw());
    this.onResize.observe(this.canvas.parentElement);
    this.onTheme = new MutationObserver(() => this.redraw());
    this.onTheme.observe(document.documentElement, { attributes: true });
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.redraw();
    this.dark.addEventListener("change", this.onScheme);
    this.onHash = () => this.follow(readAddress(location.hash, LANGUAGE));
    if (this.hasAddress) addEventListener("hashchange", this.onHash);
  }

  remove() {
    this.onResize.disconnect();
    this.onTheme.disconnect();
    this.dark.removeEventListener("change", this.onScheme);
    removeEventListener("hashchange", this.onHash);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.writing);
  }

  // ---- the page

  build(el) {
    this.root = put(el, "div", { class: "debubble-race" });
    put(this.root, "style", {}, RACE_STYLE);
    this.buildPairs();
    this.lesson = put(this.root, "p", { class: "lesson" });
    this.verdict = put(this.root, "p", { class: "verdict", role: "status" });
    const sides = put(this.root, "div", { class: "sides" });
    this.editors = NAMES.map((name) => new Editor(sides, name, () => this.changed(null)));
    const stage = put(this.root, "div", { class: "stage" });
    this.canvas = put(stage, "canvas", { role: "img" });
    this.figure = new Figure(this.canvas, PALETTE);
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
    this.playButton = putButton(box, "Race again", null, () => (this.frame ? this.stop() : this.play()));
    putButton(box, "‹", "Back to the change before", () => this.step(-1));
    putButton(box, "›", "On to the next change", () => this.step(1));
    this.slider = put(box, "input", { type: "range", min: "0", max: String(STEPS), "aria-label": "Moment" });
    this.slider.addEventListener("input", () => this.goTo((this.slider.value / STEPS) * this.length));
    this.moment = put(box, "output", { class: "moment" });
    this.copyButton = putButton(box, "Copy the address", null, () => this.copy());
    this.copyButton.hidden = !this.hasAddress;
    this.said = put(this.root, "p", { class: "said", role: "status" });
  }

  // ---- programs

  begin({ texts, pair, complaint }, otherwise) {
    if (texts) {
      NAMES.forEach((_, index) => (this.editors[index].text = texts[index]));
      this.changed(null, { write: false });
    } else this.take(pair ?? otherwise, { write: false });
    this.say(complaint ? `${complaint} Here is the pair of chapter ${otherwise.chapter}.` : "");
    this.play();
  }

  /** Takes what a changed address holds. A refused address costs nothing more than its sentence. */
  follow(found) {
    if (found.complaint) this.say(`${found.complaint} The race stays as it is.`);
    else this.begin(found, this.pair ?? LANGUAGE.pairs[0]);
  }

  take(pair, { write = true } = {}) {
    NAMES.forEach((name, index) => (this.editors[index].text = pair[name]));
    this.changed(pair, { write });
    if (write) this.play();
  }

  /** Runs both programs, after a change of their texts. */
  changed(pair, { write = true } = {}) {
    this.stop();
    this.pair = pair;
    this.pairButtons.forEach((button, index) => {
      button.setAttribute("aria-pressed", String(LANGUAGE.pairs[index] === pair));
    });
    this.lesson.textContent = pair?.lesson ?? "Your own race: change a line and see where the GPU idles.";
    this.editors.forEach((editor, index) => this.runOne(editor, index));
    this.length = Math.max(1, ...this.sums.map((sums) => sums?.length ?? 0));
    this.moments = changes(this.runs);
    this.verdict.textContent = verdict(this.sums);
    putLegend(this.legend, this.runs, this.figure);
    this.goTo(this.length);
    this.say("");
    if (write) this.writeSoon();
  }

  runOne(editor, index) {
    try {
      this.runs[index] = simulate(editor.text);
      this.sums[index] = sumUpRun(this.runs[index]);
      editor.mistake.textContent = "";
    } catch (error) {
      if (!(error instanceof Sentence)) throw error;
      this.runs[index] = this.sums[index] = null;
      editor.mistake.textContent = error.message;
    }
    this.describe(editor, this.sums[index]);
  }

  describe(editor, sums) {
    editor.root.classList.toggle("broken", !sums);
    editor.length.textContent = sums ? inTime(sums.length) : "";
    editor.figures.textContent = sums
      ? `GPU idle ${Math.round(100 * sums.idle)}%, ${counted(sums.launches, "launch").replace("launchs", "launches")}, ${counted(sums.waits, "wait")}`
      : "";
    editor.worst.replaceChildren();
    if (sums) this.sayWorst(editor, worstLine(sums, editor.text));
    editor.fill(sums);
  }

  sayWorst(editor, worst) {
    if (typeof worst === "string") return void (editor.worst.textContent = worst);
    editor.worst.append(`Line ${worst.line}, `);
    put(editor.worst, "code", {}, worst.words);
    editor.worst.append(`,${worst.rest}`);
  }

  // ---- time

  play() {
    this.stop();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.goTo(this.length);
    const began = performance.now();
    this.playButton.textContent = "Stop";
    const tick = () => {
      const share = Math.min(1, (performance.now() - began) / RACE_MS);
      this.show(share * this.length);
      if (share < 1) this.frame = requestAnimationFrame(tick);
      else this.stop();
    };
    this.frame = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.playButton.textContent = "Race again";
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
    if (!run) return this.editors[index].light({ host: [], device: [] });
    const at = momentOf(run, this.now);
    this.panels[index].show(at);
    this.editors[index].light({ host: at.host.lines, device: at.device.lines });
    return `${name}: the host ${at.host.words}, ${counted(at.queue.length, "item")} queued, the GPU ${at.device.words}`;
  }

  redraw() {
    this.figure.draw(this.runs, this.length, this.now);
    const words = NAMES.map((name, index) => {
      const sums = this.sums[index];
      return sums ? `${name}: ${inTime(sums.length)}, GPU idle ${Math.round(100 * sums.idle)} percent` : `${name}: no run`;
    });
    this.canvas.setAttribute("aria-label", `Two timelines on one axis. ${words.join(". ")}.`);
  }

  // ---- the address

  get end() {
    return addressOf(this.editors.map(({ text }) => text), this.pair);
  }

  writeSoon() {
    clearTimeout(this.writing);
    if (this.hasAddress) this.writing = setTimeout(() => writeAddress(this.end), 300);
  }

  async copy() {
    writeAddress(this.end);
    const address = location.href.replace(/#.*$/s, "") + this.end;
    try {
      await navigator.clipboard.writeText(address);
      this.say("Copied: the address holds both programs.");
    } catch {
      this.say("The address of this page now holds both programs: copy it from the browser.");
    }
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
