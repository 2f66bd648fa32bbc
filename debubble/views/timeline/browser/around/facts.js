// The facts beside the drawing: times, counts, legend, idle shares.
import { add, percent, time } from "../words.js";

/** The time from end to end in microseconds, without a load that queues in front. */
export const took = ({ length, load }) => length - load;

/** Returns [the time, the time before, the change]. The time from end to end leads, since a
 * share can get worse where the whole gets better; a load that queues in front is no part of it. */
export function endToEnd({ after, before }) {
  const now = took(after);
  const words = `${time(now)} end to end${after.load ? ` behind a load of ${time(after.load)}` : ""}`;
  if (!before || before.modelled !== after.modelled) return [words];
  const then = took(before);
  if (Boolean(before.load) !== Boolean(after.load)) return [words, time(then), "with a different load"];
  const ratio = Math.max(then, now) / Math.max(Math.min(then, now), 1e-9);
  if (ratio < 1.005) return [words, time(then), "as long as before"];
  const change = then > now ? "quick" : "long";
  return [words, time(then), `${ratio.toFixed(ratio < 10 ? 2 : 0)} × as ${change}`];
}

export function idleWords(facts) {
  const share = facts.idle_by_cause.reduce((sum, part) => sum + part, 0);
  return `idle ${percent(share)} of ${time(facts.span)}`;
}

/** Returns a sentence about the whole timeline, for screen readers. */
export function inWords(facts) {
  const { after, before } = facts;
  const [now, then, change] = endToEnd(facts);
  const counts = countsOf(facts).map(({ was, is, words }) => {
    return was === is ? `${is} ${words}` : `${was} → ${is} ${words}`;
  });
  return (
    `Timeline, ${after.label}: ${now}${then ? ` (before: ${then}; ${change})` : ""}. ` +
    `${counts.join(", ") || "nothing recorded"}. Device ${idleWords(after)}.` +
    (before ? ` The recording before: device ${idleWords(before)}.` : "")
  );
}

function countsOf({ after, before, palette }) {
  const found = [];
  for (const [name, [one, many]] of Object.entries(palette.counts)) {
    const is = after.counts[name], was = before?.counts[name] ?? is;
    if (is || was) found.push({ is, was, words: is === 1 ? one : many });
  }
  return found;
}

export function fillHeadline(node, facts) {
  node.replaceChildren();
  const [now, then, change] = endToEnd(facts);
  add(node, "b", {}, now);
  if (!then) return;
  node.append(", before ");
  add(node, "s", {}, then);
  node.append(`: ${change}`);
}

export function fillCounts(node, facts) {
  node.replaceChildren();
  for (const { is, was, words } of countsOf(facts)) {
    const item = add(node, "span", {});
    if (was !== is) {
      add(item, "span", { class: "unseen" }, "before ");
      add(item, "s", {}, was.toLocaleString("en"));
      item.append(" → ");
    }
    add(item, "b", {}, is.toLocaleString("en"));
    item.append(` ${words}`);
  }
}

export function fillLegend(node, recordings, kinds) {
  node.replaceChildren();
  const seen = new Set(recordings.flatMap((recording) => [...new Set(recording.kind)]));
  kinds.forEach((kind, index) => {
    if (!seen.has(index)) return;
    const item = add(node, "span", {});
    add(item, "i", { class: `swatch ${kind.key}`, style: `--tone: var(--kind-${index})` });
    item.append(kind.words);
  });
}

/** A bar for each recording, as long as its time: computing, then idle by cause. */
export function fillShares(node, facts, causes) {
  node.replaceChildren();
  for (const which of facts.before ? ["before", "after"] : ["after"]) {
    const about = facts[which];
    if (!about.span) continue;
    const row = add(node, "div", { class: "share" });
    add(row, "span", { class: "which" }, facts.before ? which : "device");
    const bar = add(row, "span", { class: "bar", "aria-hidden": "true" });
    const longest = Math.max(about.span, facts.before?.span ?? 0, facts.after.span);
    bar.style.width = `${(100 * about.span) / longest}%`;
    const idle = about.idle_by_cause.reduce((sum, part) => sum + part, 0);
    add(bar, "i", { class: "working" }).style.flexGrow = 1 - idle;
    const text = add(row, "span", { class: "words" }, idleWords(about));
    about.idle_by_cause.forEach((share, cause) => {
      const tone = `--tone: var(--cause-${cause})`;
      add(bar, "i", { style: tone }).style.flexGrow = share;
      if (share <= 0) return;
      const item = add(text, "span", { class: "cause" });
      add(item, "i", { class: "swatch", style: tone });
      item.append(`${causes[cause].words} ${percent(share)}`);
    });
  }
}
