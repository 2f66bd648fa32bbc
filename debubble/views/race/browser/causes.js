// The causes of idle time that a line is charged with, in words: on its badge, in its sentence, and as what to
// look at after a wrong guess.

const BEFORE_GAPS = "what does the host do before each gap?";

const CAUSES = {
  wait: { badge: ": a wait", why: ": the host waits there, so its next launches come late.", hint: BEFORE_GAPS },
  python: { badge: ": Python", why: ": the host runs Python there, so its next launches come late.", hint: BEFORE_GAPS },
  launch: {
    badge: ": late launches",
    why: ": the host needs longer to launch it than the GPU needs for the work before.",
    hint: "which takes longer, a kernel or its launch?",
  },
  copy: {
    badge: ": a copy",
    why: ": the GPU waits for that copy.",
    hint: "what else does the GPU do while it computes nothing?",
  },
  other: { badge: "", why: ".", hint: "what comes before each gap?" },
};

/** Returns the words of the main cause of a line's idle time: {badge, why, hint}. */
export function mainCause({ causes }) {
  return CAUSES[Object.entries(causes).sort(([, a], [, b]) => b - a)[0][0]];
}
