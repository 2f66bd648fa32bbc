"""Judges `debubble.traces` by traces that this machine's GPU makes now.

    python -m tests.outside.traces.judge FILE [NAME ...]

Writes to FILE, for each program of `programs.py`, how far its trace is from our own recording of
the same run; for each pair, the measured and the predicted gain; and for each fetched program of
other people its idle time, the three largest causes and the places, to be judged by hand. Exits
with 1 if a trace differs from its recording, or if a file can't be read.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import debubble
from debubble.traces.reading import read_trace
from debubble.traces.summary import summarize

from . import make
from .predict import REMOVED, gains

MOST_DIFFERENCE = 0.01
"""The largest difference of idle time by cause, as a share of the whole time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", help="only these programs and pairs")
    parser.add_argument("--seconds", type=float, default=300.0, help="begin nothing after these")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        report = make.make_all(folder, options.names, options.seconds)
        for name, said in report.items():
            if name != "about" and said != make.LEFT_OUT:
                report[name] = {"made": said} | judged(folder, name)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps(report, indent=1) + "\n")
    wrong = [name for name, said in report.items() if isinstance(said, dict) and said.get("wrong")]
    print("wrong:", ", ".join(wrong) or "none")
    return int(bool(wrong))


def judged(folder: Path, name: str) -> dict[str, object]:
    """Returns what the traces of one program or pair say, with "wrong" if they can't be right."""
    try:
        if name.startswith("pair_"):
            return judged_pair(folder, name.removeprefix("pair_"))
        kept = folder / f"{name}.kept.json.gz"
        if kept.exists():
            return compared(kept, folder / f"{name}.recording.json.gz")
        return described(folder / f"{name}.plain.json.gz")
    except Exception as error:
        return {"wrong": f"{type(error).__name__}: {error}"[:400]}


def compared(kept: Path, recording: Path) -> dict[str, object]:
    trace, ours = read_trace(kept).timeline, debubble.Timeline.load(recording)
    theirs, own = trace.idle_by_cause(), ours.idle_by_cause()
    furthest = max(abs(theirs[cause] - own[cause]) for cause in own)
    same = trace.counts() == ours.counts() and furthest <= MOST_DIFFERENCE
    found = {"counts": trace.counts(), "idle_differs_by": round(furthest, 5)}
    return found if same else found | {"wrong": f"the recording has {ours.counts()}"}


def judged_pair(folder: Path, name: str) -> dict[str, object]:
    pair = json.loads((folder / "pairs.json").read_text())[name]
    before = folder / f"pair_{name}.before.plain.json.gz"
    if name not in REMOVED or not read_trace(before).devices:
        return {"times": pair["rounds"]}
    measured, predicted = gains(before, name, pair)
    rounds = zip(pair["rounds"]["before"], pair["rounds"]["after"], strict=True)
    gained = sorted(1 - after / before for before, after in rounds)
    return {
        "measured": round(measured, 4),
        "measured_in_rounds": [round(gained[0], 4), round(gained[-1], 4)],
        "predicted": round(predicted, 4),
    }


def described(path: Path) -> dict[str, object]:
    summary = summarize(read_trace(path))
    found = summary.findings
    causes = sorted(found.causes.items(), key=lambda item: -item[1])[:3]
    return {
        "counts": summary.counts,
        "idle": round(summary.idle_share, 4),
        "causes": {cause: round(time / found.span, 4) for cause, time in causes},
        "places": [
            [place.cause, place.place, round(place.microseconds / found.span, 4)]
            for place in found.places[:8]
        ],
        "steps": [summary.steps.found_by, len(summary.steps.steps)],
        "notes": summary.notes,
    }


if __name__ == "__main__":
    sys.exit(main())
