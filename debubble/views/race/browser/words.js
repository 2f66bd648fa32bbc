// The words of the language in a table, and the colours of the drawing.
import { put } from "./nodes.js";

export function putWords(parent, { words }) {
  const box = put(parent, "details", { class: "words" });
  put(box, "summary", {}, "The words of this language, and the PyTorch that they stand for");
  const scroll = put(box, "div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Words" });
  const table = put(scroll, "table");
  const head = put(put(table, "thead"), "tr");
  for (const words of ["write", "in PyTorch", "what it does"]) put(head, "th", { scope: "col" }, words);
  const body = put(table, "tbody");
  for (const { example, python, does } of Object.values(words)) {
    const row = put(body, "tr");
    put(put(row, "th", { scope: "row" }), "code", {}, example);
    put(put(row, "td"), "code", {}, asPython(python, example));
    put(row, "td", {}, does);
  }
}

/** The PyTorch of an example, in short. */
function asPython(python, example) {
  const [, first = "", ...rest] = example.split(" ");
  const short = { memory: first, size: first, count: first, number: first, name: first, line: "0" };
  const filled = python.replace(/\{(\w+)\}/g, (_, name) => short[name] ?? [first, ...rest].filter((w) => w !== "pinned").join(" "));
  return filled.replace("non_blocking=pinned is pinned", "non_blocking=True");
}

/** The kinds of events and bubbles in the runs, each with its colour. */
export function putLegend(parent, runs, figure) {
  const all = runs.filter(Boolean);
  const kinds = new Set(all.flatMap(({ events }) => events.map(({ kind, copyKind }) => copyKind ?? kind)));
  const causes = new Set(all.flatMap(({ bubbles }) => bubbles.map(({ cause }) => cause)));
  const entries = [
    ...[...kinds].map((key) => [figure.kinds[key].words, figure.kinds[key]]),
    ...[...causes].map((cause) => [`bubble: ${cause}`, figure.causes[cause]]),
  ];
  parent.replaceChildren();
  for (const [words, { light, dark }] of entries) {
    const entry = put(parent, "span");
    put(entry, "i", { style: `background:light-dark(${light}, ${dark})` });
    entry.append(words);
  }
  put(parent, "b", {}, `times modelled on an ${FACTS.cost.gpu}`);
}
