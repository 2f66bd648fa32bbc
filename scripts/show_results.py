"""Shows what was measured, from assets/: the tables in README.md, and a picture of each system.

`--check` writes nothing, and exits with 1 if a table is not current; it doesn't look at pictures.
"""

from __future__ import annotations

import json
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
README = ROOT / "README.md"
sys.path.insert(0, str(ROOT))  # Our tests are nowhere installed.


def main() -> int:
    checking = only_check(__doc__)
    benchmarks = ASSETS / "benchmarks"
    parts = [
        GeneratedPart(README, "results", results_table(benchmarks)),
        GeneratedPart(README, "engine", engine_table(benchmarks)),
        GeneratedPart(README, "validation", validation_table(ASSETS), may_be_old=True),
    ]
    if not checking:
        draw_pictures("nvidia-h200", ASSETS / "pictures")
    return write_or_check(parts, checking)


@dataclass(frozen=True)
class Results:
    """What the first table shows of `assets/benchmarks/<gpu>/<system>.json`: a row a preset."""

    kind: str
    """Of step, as the file calls it."""
    step: str
    presets: dict[str, str]
    """What each is called in the file, and in the table."""
    cost: Callable[[dict], str]
    variants: tuple[str, str] = ("before", "after")


SYSTEMS = {
    "pinned_h2d": Results(
        "prefill",
        "prefill behind 40 ms of queued work, 16 requests with images, 48 layers",
        {"small": "narrow model", "gemma_like": "shape of a 12-billion-parameter model"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, idle {cost['idle_share']:.0%}",
    ),
    "sync_free": Results(
        "decode",
        "one of many decode steps in a row",
        {
            "small": "8 requests, narrow model",
            "serving": "256 requests, vocabulary of 128k",
        },
        lambda cost: f"{cost['loop_us'] / 1000:.2f} ms, {cost['counts']['host_syncs']} waits",
    ),
    "gdn": Results(
        "prefill",
        "prefill behind 40 ms of queued work, 24 Gated DeltaNet layers, before without a cache",
        {"small": "3 prompts, narrow model", "serving": "8 prompts of 8192 tokens in all"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, {cost['counts']['host_syncs']} waits",
    ),
    "flex_graph": Results(
        "decode",
        "one of many decode steps in a row, before in piecewise graphs",
        {"small": "12 layers of 768", "llama_3_8b": "shape of Llama-3-8B"},
        lambda cost: f"{cost['loop_us'] / 1000:.2f} ms, {launched(cost['counts'])}",
        ("piecewise", "full"),
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


def results_table(benchmarks: Path) -> str:
    """Of all that a GPU has measured so far."""
    rows = []
    for gpu in sorted(path for path in benchmarks.iterdir() if path.is_dir()):
        for system, results in SYSTEMS.items():
            path = gpu / f"{system}.json"
            if not path.exists():
                continue
            record = json.loads(path.read_text())
            link = f"[{record['accelerator']}]({path.relative_to(README.parent).as_posix()})"
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
        link = f"[{record['accelerator']}]({path.relative_to(README.parent).as_posix()})"
        costs = [
            record["presets"][name]["steps"][engine.kind] if name in record["presets"] else {}
            for name in engine.presets
        ]
        for variant in costs[0]:
            cells = [engine.cost(of[variant]) if variant in of else "" for of in costs]
            rows.append([link, variant, *cells])
    return table(["GPU", "switched on", *engine.presets.values()], rows)


def validation_table(assets: Path) -> str:
    """Of each GPU which parts of its validation hold for the source as it is."""
    from tests.validation.state import states

    rows = []
    for state in states(assets, ROOT):
        others = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in state.others.items())
        link = f"[{state.gpu}]({state.path.relative_to(assets.parent).as_posix()})"
        hold = f"{state.hold} of {len(state.parts)}"
        rows.append([link, hold, others, state.versions, state.dates])
    return table(["GPU", "parts that hold", "others", "with", "when"], rows)


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
