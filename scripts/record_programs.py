"""Records the programs of the exercises named `find_in_…` on sim, and again with each line changed.

    python scripts/record_programs.py [NAME…]

writes `<program>.json` and `<program>.mended.json` in `katas/<system>/recorded/`. The engine's
recording is a GPU's: its files are copied from `assets/timelines`.
"""

from __future__ import annotations

import json
import linecache
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import debubble
from debubble.timeline.timeline import Timeline

ROOT = Path(__file__).resolve().parents[1]
STEPS = 3


def questions() -> list[Path]:
    return sorted(ROOT.glob("katas/*/recorded/*.toml"))


def lines_of(question: Path) -> list[dict[str, Any]]:
    """Returns the lines among which a question lets choose, with the change of each."""
    return tomllib.loads(question.read_text(encoding="utf-8"))["line"]


def changed(code: str, line: dict[str, Any]) -> str:
    """Returns a program's code with one line changed. Raises ValueError if a text to replace does
    not occur exactly once."""
    for old, new in [(line["code"], line["mend"]), *line.get("also", [])]:
        if code.count(old) != 1:
            raise ValueError(f"{old!r} occurs {code.count(old)} times")
        code = code.replace(old, new)
    return code


def record(path: Path, code: str) -> Timeline:
    """Records STEPS steps of the program `code` on sim, after a first one."""
    program = ModuleType(path.stem)
    shown = path.name
    linecache.cache[shown] = len(code), None, code.splitlines(keepends=True), shown
    exec(compile(code, shown, "exec"), program.__dict__)
    accelerator = debubble.accelerator("sim")
    step = program.make(accelerator)
    step(0)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        for number in range(1, 1 + STEPS):
            step(number)
        accelerator.synchronize()
    return timeline


def recordings(question: Path) -> tuple[Timeline, dict[str, float]]:
    """Returns the recording of a question, and the lengths in microseconds with each line changed;
    the key "" has its own."""
    content = tomllib.loads(question.read_text(encoding="utf-8"))
    if "measured" in content:
        load = lambda name: Timeline.load(ROOT / content["measured"].format(name))
        timeline = load(content["before"])
        after = {line["at"]: load(line["after"]) for line in content["line"] if "after" in line}
    else:
        path = question.with_suffix(".py")
        code = path.read_text(encoding="utf-8")
        after = {line["at"]: record(path, changed(code, line)) for line in lines_of(question)}
        # It comes last, because the lines of a recording are read when it is saved.
        timeline = record(path, code)
    lengths = {line: round(mended.length, 1) for line, mended in after.items()}
    return timeline, {"": round(timeline.length, 1), **lengths}


def main() -> int:
    for question in questions():
        if sys.argv[1:] and question.stem not in sys.argv[1:]:
            continue
        timeline, lengths = recordings(question)
        timeline.save(question.with_suffix(".json"))
        text = json.dumps(lengths, indent=2) + "\n"
        question.with_suffix(".mended.json").write_text(text, encoding="utf-8")
        print(f"{question.stem}: {lengths}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
