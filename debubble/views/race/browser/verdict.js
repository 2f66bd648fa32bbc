// Who wins a race, in words.
import { inTime } from "./sums.js";

const AS_FAST = 1.05; // programs whose times have a smaller ratio are as fast as each other
const OTHER_WORK = 0.05; // share of the time in kernels that two programs with the same work may differ by

/** Says who wins, by how much, and if one of them was given less to compute. */
export function verdict([before, after]) {
  if (!before || !after) return "";
  const differs = ` Their work differs: kernels of ${inTime(before.busy)} and of ${inTime(after.busy)}.`;
  return winner(before, after) + (isSameWork(before, after) ? "" : differs);
}

function isSameWork(before, after) {
  const most = Math.max(before.busy, after.busy), least = Math.min(before.busy, after.busy);
  return most - least <= OTHER_WORK * most;
}

function winner(before, after) {
  const [fast, slow] = before.length < after.length ? [before, after] : [after, before];
  const times = slow.length / fast.length;
  if (times < 1.01) return `Both programs take ${inTime(fast.length)}.`;
  if (times < AS_FAST) return `Before is as fast as After: ${inTime(before.length)} and ${inTime(after.length)}.`;
  const [name, other] = fast === after ? ["After", "Before"] : ["Before", "After"];
  const howMuch = times < 10 ? times.toFixed(times < 1.95 ? 2 : 1) : Math.round(times).toLocaleString("en");
  return `${name} is ${howMuch} times as fast as ${other}: ${inTime(fast.length)} instead of ${inTime(slow.length)}.`;
}

/** True for each of the two runs that no other beats. */
export function winners(sums) {
  const fastest = Math.min(...sums.map((one) => one?.length ?? Infinity));
  return sums.map((one) => Boolean(one && sums.every(Boolean)) && one.length < AS_FAST * fastest);
}

/** True if Before does the work of After in its time: the reader has found the bubble. */
export function isMended([before, after]) {
  if (!before || !after || !isSameWork(before, after)) return false;
  return before.uploads >= after.uploads && before.length < AS_FAST * after.length;
}

/** Says that the times shown are older than the text of the programs `names`. */
export function staleWords(names) {
  const said = names.map((name) => name[0].toUpperCase() + name.slice(1)).join(" and ");
  return names.length > 1
    ? `${said} have a mistake: these are the times of their last runs.`
    : `${said} has a mistake: this is the time of its last run.`;
}
