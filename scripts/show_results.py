"""Draws the README's pictures and writes its table from assets/: nothing is typed.

`show_results.py` rewrites both; `--check` exits with 1 if the README's table is not current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from debubble.assets import ASSETS
from debubble.timeline import Timeline
from debubble.views.picture import draw_png

README = ASSETS.parent / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
HEADINGS = ("GPU", "one step", "before", "after")


def main() -> int:
    readme = README.read_text()
    current = with_results(readme, results_table(ASSETS / "benchmarks"))
    if "--check" in sys.argv:
        return int(current != readme)
    README.write_text(current)
    for system in SYSTEMS:
        recordings = ASSETS / "timelines" / "nvidia-h200"
        draw_picture(recordings, system, ASSETS / "pictures" / f"{system}.png")
    return 0


def with_results(readme: str, table: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def results_table(benchmarks: Path) -> str:
    rows = [HEADINGS, ["---"] * len(HEADINGS)]
    for gpu in sorted(path for path in benchmarks.iterdir() if path.is_dir()):
        for system, rows_of in SYSTEMS.items():
            path = gpu / f"{system}.json"
            record = json.loads(path.read_text())
            link = f"[{record['accelerator']}]({path.relative_to(README.parent).as_posix()})"
            rows += [[link, *cells] for cells in rows_of(record["presets"])]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def prefix_rows(presets: dict) -> Iterator[list[str]]:
    """Chapter 01: one prefill step behind a loaded queue."""
    models = {
        "small": "narrow model",
        "gemma_like": "shape of a 12-billion-parameter model",
    }
    for name, preset in presets.items():
        costs = preset["steps"]["prefill"]
        yield [
            f"prefill of 16 requests with images, 48 layers, {models[name]}",
            *(
                f"{cost['device_us'] / 1000:.2f} ms, idle {cost['idle_share']:.0%}"
                for cost in (costs["before"], costs["after"])
            ),
        ]


def sync_free_rows(presets: dict) -> Iterator[list[str]]:
    """Chapter 02: a step among many in a row."""
    batches = {
        "small": "8 requests, narrow model",
        "serving": "256 requests, vocabulary of 128k",
    }
    for name, preset in presets.items():
        costs = preset["steps"]["decode"]
        yield [
            f"decode step in a row of them, {batches[name]}",
            *(
                f"{cost['loop_us'] / 1000:.2f} ms, {cost['counts']['host_syncs']} waits"
                for cost in (costs["before"], costs["after"])
            ),
        ]


SYSTEMS: dict[str, Callable[[dict], Iterator[list[str]]]] = {
    "pinned_h2d": prefix_rows,
    "sync_free": sync_free_rows,
}


def draw_picture(recordings: Path, system: str, picture: Path) -> None:
    before = Timeline.load(recordings / f"{system}_before.json")
    after = Timeline.load(recordings / f"{system}_after.json")
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(draw_png(after, before))


if __name__ == "__main__":
    sys.exit(main())
