"""Draws the README's picture and writes its table from what is stored in assets/: nothing is typed.

`show_results.py` rewrites both; `--check` exits with 1 if the README's table is not current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from debubble.assets import ASSETS
from debubble.timeline import Timeline
from debubble.views.picture import draw_png

README = ASSETS.parent / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PRESETS = {
    "small": "narrow model, 48 layers",
    "gemma_like": "shape of a 12-billion-parameter model, 48 layers",
}


def main() -> int:
    readme = README.read_text()
    current = with_results(readme, results_table(ASSETS / "benchmarks"))
    if "--check" in sys.argv:
        return int(current != readme)
    README.write_text(current)
    draw_picture(ASSETS / "timelines" / "nvidia-h200", ASSETS / "pictures" / "pinned_h2d.png")
    return 0


def with_results(readme: str, table: str) -> str:
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def results_table(benchmarks: Path) -> str:
    rows = [
        "| GPU | prefill of 16 requests with images | before: device, idle | after: device, idle |",
        "|---|---|---|---|",
    ]
    for path in sorted(benchmarks.glob("*/pinned_h2d.json")):
        record = json.loads(path.read_text())
        link = path.relative_to(README.parent).as_posix()
        for name, preset in record["presets"].items():
            steps = preset["steps"]["prefill"]
            cells = [cost_in_words(steps[variant]) for variant in ("before", "after")]
            rows.append(
                f"| [{record['accelerator']}]({link}) | {PRESETS[name]} | {' | '.join(cells)} |"
            )
    return "\n".join(rows)


def cost_in_words(cost: dict) -> str:
    return f"{cost['device_us'] / 1000:.2f} ms, {cost['idle_share']:.0%}"


def draw_picture(recordings: Path, picture: Path) -> None:
    before = Timeline.load(recordings / "pinned_h2d_before.json")
    after = Timeline.load(recordings / "pinned_h2d_after.json")
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(draw_png(after, before))


if __name__ == "__main__":
    sys.exit(main())
