"""Shows what was measured, from assets/: the tables of our pages, and a picture of each system.

`--check` writes nothing, and exits with 1 if a table is not current; it doesn't look at pictures.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from generated_part import GeneratedPart, only_check, table, write_or_check

from debubble.assets import ASSETS
from debubble.views.timeline.picture import draw_png
from solutions.measure.benchmark import idle_in_a_row
from solutions.measure.stored import recording

ROOT = ASSETS.parent
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
HEADLINES_OF = "nvidia-h200"
sys.path.insert(0, str(ROOT))  # Our tests are nowhere installed.


def main() -> int:
    checking = only_check(__doc__)
    benchmarks = ASSETS / "benchmarks"
    parts = [
        GeneratedPart(README, "headlines", headlines_table(benchmarks / HEADLINES_OF)),
        GeneratedPart(PAGE, "results", results_table(benchmarks)),
        GeneratedPart(PAGE, "engine", engine_table(benchmarks)),
        GeneratedPart(PAGE, "validation", validation_table(ASSETS), may_be_old=True),
    ]
    if not checking:
        draw_pictures("nvidia-h200", ASSETS / "pictures")
    return write_or_check(parts, checking)


@dataclass(frozen=True)
class Results:
    """What the tables show of `assets/benchmarks/<gpu>/<system>.json`: a row a preset."""

    kind: str
    """Of step, as the file calls it."""
    step: str
    presets: dict[str, str]
    """What each is called in the file, and in the table."""
    cost: Callable[[dict], str]
    variants: tuple[str, str] = ("before", "after")
    headline: tuple[str, str] | None = None
    """Of the README's row: the preset, and what it is in few words."""


SYSTEMS = {
    "pinned_h2d": Results(
        "prefill",
        "prefill behind 40 ms of queued work, 16 requests with images, 48 layers",
        {"small": "narrow model", "gemma_like": "shape of a 12-billion-parameter model"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, idle {cost['idle_share']:.0%}",
        headline=("small", "image ranges in one pinned upload: a prefill"),
    ),
    "sync_free": Results(
        "decode",
        "one of many decode steps in a row",
        {
            "small": "8 requests, narrow model",
            "serving": "256 requests, vocabulary of 128k",
        },
        lambda cost: f"{cost['loop_us'] / 1000:.2f} ms, {cost['counts']['host_syncs']} waits",
        headline=("serving", "eight waits less: a decode step of 256 requests"),
    ),
    "gdn": Results(
        "prefill",
        "prefill behind 40 ms of queued work, 24 Gated DeltaNet layers, before without a cache",
        {"small": "3 prompts, narrow model", "serving": "8 prompts of 8192 tokens in all"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, {cost['counts']['host_syncs']} waits",
        headline=("small", "chunk tables made on the host: a prefill of 24 Gated DeltaNet layers"),
    ),
    "flex_graph": Results(
        "decode",
        "one of many decode steps in a row, before in piecewise graphs",
        {"small": "12 layers of 768", "llama_3_8b": "shape of Llama-3-8B"},
        lambda cost: f"{cost['loop_us'] / 1000:.2f} ms, {launched(cost['counts'])}",
        ("piecewise", "full"),
        headline=("llama_3_8b", "one graph for a whole decode step of Llama-3-8B's shape"),
    ),
    "offload": Results(
        "load",
        "load of a prefix from CPU memory behind 40 ms of queued work, one DMA batch before",
        {"small": "1536 pieces of 8 KiB", "llama_3_70b_rank": "40,960 pieces of 8 KiB"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, host {cost['host_us'] / 1000:.2f} ms",
    ),
    "offload_serving": Results(
        "serving",
        "requests whose prefix waits in CPU memory",
        {"llama_3_70b_rank": "8192 tokens, one of eight GPUs of Llama-3-70B"},
        lambda cost: f"{cost['requests_per_s']:.1f} requests/s",
        headline=("llama_3_70b_rank", "KV blocks from CPU memory by a kernel: serving 8192 tokens"),
    ),
    "engine": Results(
        "decode",
        "one of many decode steps of the engine in a row, none and all of the five",
        {
            "hybrid": "8 requests, narrow hybrid model",
            "llama_3_8b": "8 requests, shape of Llama-3-8B",
        },
        lambda cost: (
            f"{cost['loop_us'] / 1000:.2f} ms, {cost['tokens_per_s']:.0f} tokens/s, "
            f"idle {idle_in_a_row(cost):.0%}"
        ),
        ("none", "all"),
    ),
    "engine_latency": Results(
        "batch",
        "batch of 8 requests, 32 tokens in and 128 out, before in piecewise graphs",
        {"llama_3_8b": "shape of Llama-3-8B"},
        lambda cost: f"{cost['seconds']:.2f} s",
        ("all but flex_full_graph", "all"),
    ),
    "engine_throughput": Results(
        "shared prefixes",
        "requests behind 12 prefixes in CPU memory, before by DMA",
        {"llama_3_70b_rank": "8192 tokens, one of eight GPUs of Llama-3-70B"},
        lambda cost: f"{cost['requests_per_s']:.1f} requests/s",
        ("all but offload_triton", "all"),
    ),
}


def launched(counts: dict) -> str:
    graphs = counts["graph_launches"]
    return f"{graphs} graph" if graphs == 1 else f"{graphs} graphs, {counts['host_syncs']} waits"


def relative(path: Path, page: Path) -> str:
    """As a link on `page` has it."""
    return Path(os.path.relpath(path, page.parent)).as_posix()


def headlines_table(gpu: Path) -> str:
    """A row of each system that has a headline, on one GPU."""
    rows, name = [], ""
    for system, results in SYSTEMS.items():
        if results.headline is None:
            continue
        preset, words = results.headline
        record = json.loads((gpu / f"{system}.json").read_text())
        name = record["accelerator"]
        costs = record["presets"][preset]["steps"][results.kind]
        shown = [results.cost(costs[variant]) for variant in results.variants]
        rows.append([f"[{words}]({relative(gpu / f'{system}.json', README)})", *shown])
    return table([f"on one {name}", "before", "after"], rows)


def results_table(benchmarks: Path) -> str:
    """Of all that a GPU has measured so far."""
    rows = []
    for gpu in sorted(path for path in benchmarks.iterdir() if path.is_dir()):
        for system, results in SYSTEMS.items():
            path = gpu / f"{system}.json"
            if not path.exists():
                continue
            record = json.loads(path.read_text())
            link = f"[{record['accelerator']}]({relative(path, PAGE)})"
            for name, words in results.presets.items():
                if name not in record["presets"]:
                    continue
                costs = record["presets"][name]["steps"][results.kind]
                shown = [results.cost(costs[variant]) for variant in results.variants]
                rows.append([link, f"{results.step}, {words}", *shown])
    return table(["GPU", "what", "before", "after"], rows)


def engine_table(benchmarks: Path) -> str:
    """The engine's decode steps in a row: a line for each variant, a column for each model."""
    engine, rows = SYSTEMS["engine"], []
    for path in sorted(benchmarks.glob("*/engine.json")):
        record = json.loads(path.read_text())
        link = f"[{record['accelerator']}]({relative(path, PAGE)})"
        costs = [
            record["presets"][name]["steps"][engine.kind] if name in record["presets"] else {}
            for name in engine.presets
        ]
        for variant in costs[0]:
            cells = [engine.cost(of[variant]) if variant in of else "" for of in costs]
            rows.append([link, variant, *cells])
    return table(["GPU", "switched on", *engine.presets.values()], rows)


def validation_table(assets: Path) -> str:
    """Returns one row for each record: how many parts passed, and which did not."""
    from tests.validation.state import states

    rows = []
    for state in states(assets):
        link = f"[{state.gpu}]({relative(state.path, PAGE)})"
        passed = f"{len(state.named('passed'))} of {len(state.parts)}"
        rows.append([link, passed, state.others, state.versions, state.dates])
    return table(["GPU", "parts that passed", "others", "with", "when"], rows)


def draw_pictures(gpu: str, pictures: Path) -> None:
    """One step of each system, or several where no figure is of one, as `recording` gives it."""
    pictures.mkdir(parents=True, exist_ok=True)
    for system, results in SYSTEMS.items():
        if not (ASSETS / "timelines" / gpu / f"{system}_{results.variants[1]}.json").exists():
            continue
        then, now = (recording(system, variant, gpu) for variant in results.variants)
        (pictures / f"{system}.png").write_bytes(draw_png(now, then))


if __name__ == "__main__":
    sys.exit(main())
