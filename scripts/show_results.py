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
from solutions.measure.stored import STEPS, recording

ROOT = ASSETS.parent
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
HEADLINES_OF = "nvidia-h100-80gb-hbm3"
sys.path.insert(0, str(ROOT))  # Our tests are not installed as a package.


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
class Headline:
    """A row of README: the fix, the baseline called "before", and the presets of both columns."""

    words: str
    before: str
    small: str
    large: str
    """The presets of the columns `small` and `large`: a model for which the host is the bottleneck,
    and a large one."""


@dataclass(frozen=True)
class Results:
    """The figures of `assets/benchmarks/<gpu>/<system>.json` that tables show: one row for each
    preset."""

    kind: str
    """The kind of step, as the file names it."""
    step: str
    presets: dict[str, str]
    """The presets' names in the table, by their names in the file."""
    cost: Callable[[dict], str]
    variants: tuple[str, str] = ("before", "after")
    pictured: tuple[str, str] = ("before", "after")
    """The two variants in the system's picture, before and after."""
    headline: Headline | None = None


SYSTEMS = {
    "pinned_h2d": Results(
        "prefill",
        "prefill behind 40 ms of queued work, 16 requests with images, 48 layers",
        {"small": "narrow model", "gemma_like": "shape of a 12-billion-parameter model"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, idle {cost['idle_share']:.0%}",
        headline=Headline(
            "image ranges in one pinned upload: a prefill behind 40 ms of queued work",
            "an upload for each layer and request",
            "small",
            "gemma_like",
        ),
    ),
    "sync_free": Results(
        "decode",
        "one of many decode steps in a row",
        {
            "small": "8 requests, narrow model",
            "serving": "256 requests, vocabulary of 128k",
        },
        lambda cost: f"{cost['loop_us'] / 1000:.2f} ms, {cost['counts']['host_syncs']} waits",
        headline=Headline(
            "no wait at eight sites: a decode step, one of many in a row",
            "each site waits, once or for each request",
            "small",
            "serving",
        ),
    ),
    "gdn": Results(
        "prefill",
        "prefill behind 40 ms of queued work, 24 Gated DeltaNet layers, before: upstream's cache",
        {"small": "3 prompts, narrow model", "serving": "8 prompts of 8192 tokens in all"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, {cost['counts']['host_syncs']} waits",
        variants=("cached", "after"),
        pictured=("cached", "after"),
        headline=Headline(
            "chunk tables made on the host: a prefill of Gated DeltaNet layers, "
            "behind 40 ms of queued work",
            "upstream's tables, with its cache",
            "small",
            "serving",
        ),
    ),
    "flex_graph": Results(
        "decode",
        "one of many decode steps in a row, before: piecewise graphs",
        {"small": "12 layers of 768", "llama_3_8b": "shape of Llama-3-8B"},
        lambda cost: f"{cost['loop_us'] / 1000:.2f} ms, {launched(cost['counts'])}",
        ("piecewise", "full"),
        pictured=("piecewise", "full"),
        headline=Headline(
            "one graph for a whole decode step of 8 requests, one of many in a row",
            "piecewise graphs",
            "small",
            "llama_3_8b",
        ),
    ),
    "offload": Results(
        "load",
        "load of a prefix from CPU memory behind 40 ms of queued work, before: DMA batches",
        {"small": "1536 pieces of 8 KiB", "llama_3_70b_rank": "40,960 pieces of 8 KiB"},
        lambda cost: f"{cost['device_us'] / 1000:.2f} ms, host {cost['host_us'] / 1000:.2f} ms",
    ),
    "offload_serving": Results(
        "serving",
        "chapter 05's server: requests whose prefix waits in CPU memory",
        {"llama_3_70b_rank": "48 requests, 8192 tokens, one of eight GPUs of Llama-3-70B"},
        lambda cost: f"{cost['requests_per_s']:.1f} requests/s",
        headline=Headline(
            "KV blocks copied from CPU memory by a kernel: serving requests",
            "DMA batches",
            "small",
            "llama_3_70b_rank",
        ),
    ),
    "host_bound": Results(
        "decode",
        "one of many decode steps in a row, with metadata for four groups of layers",
        {"small": "16 requests, 40 layers", "serving": "256 requests, 80 layers"},
        lambda cost: (
            f"{cost['loop_us'] / 1000:.2f} ms, metadata {cost['metadata_us']['4'] / 1000:.2f} ms"
        ),
    ),
    "engine": Results(
        "decode",
        "one of many decode steps of the engine in a row, without and with all five fixes",
        {
            "hybrid": "8 requests, narrow hybrid model",
            "llama_3_8b": "8 requests, shape of Llama-3-8B",
        },
        lambda cost: (
            f"{cost['loop_us'] / 1000:.2f} ms, {cost['tokens_per_s']:.0f} tokens/s, "
            f"idle {idle_in_a_row(cost):.0%}"
        ),
        ("none", "all"),
        pictured=("none", "all"),
    ),
    "engine_latency": Results(
        "batch",
        "batch of 8 requests, 32 tokens in and 128 out, before: piecewise graphs",
        {"llama_3_8b": "shape of Llama-3-8B"},
        lambda cost: f"{cost['seconds']:.2f} s",
        ("all but flex_full_graph", "all"),
    ),
    "engine_throughput": Results(
        "shared prefixes",
        "the engine: requests that share 12 prefixes in CPU memory, before: DMA",
        {"llama_3_70b_rank": "8192 tokens, one of eight GPUs of Llama-3-70B"},
        lambda cost: f"{cost['requests_per_s']:.1f} requests/s",
        ("all but offload_triton", "all"),
    ),
}


def launched(counts: dict) -> str:
    graphs = counts["graph_launches"]
    return f"{graphs} graph" if graphs == 1 else f"{graphs} graphs, {counts['host_syncs']} waits"


def relative(path: Path, page: Path) -> str:
    """Returns the path relative to the folder of `page`."""
    return Path(os.path.relpath(path, page.parent)).as_posix()


def headlines_table(gpu: Path) -> str:
    """Returns README's table of one GPU: a row for each system that has a headline, with the costs
    before and after on a small model and a large one."""
    rows, name = [], ""
    for system, results in SYSTEMS.items():
        headline = results.headline
        if headline is None:
            continue
        record = json.loads((gpu / f"{system}.json").read_text())
        name = record["accelerator"]
        models = []
        for preset in (headline.small, headline.large):
            before, after = costs_of(gpu, system, preset)
            models.append(f"{size_of(record['presets'][preset]['config'])}: {before} → {after}")
        link = f"[{headline.words}]({relative(gpu / f'{system}.json', README)})"
        rows.append([link, headline.before, *models, record["date"]])
    return table([f"on one {name}", "before", "small model", "large model", "measured"], rows)


def size_of(config: dict) -> str:
    """Returns the size of a preset's model, and of its requests if the preset has it."""
    size = f"{config['num_layers']} layers of {config['hidden_size']}"
    if lengths := config.get("prompt_lens"):
        return f"{size}, {sum(lengths)} tokens"
    if requests := config.get("num_requests"):
        return f"{size}, {requests} requests"
    return size


def costs_of(gpu: Path, system: str, preset: str) -> list[str]:
    """Returns the costs of a system's two variants, as its table shows them. A recorded step takes
    its idle share from the recording, so that a picture and a table never differ."""
    results = SYSTEMS[system]
    record = json.loads((gpu / f"{system}.json").read_text())
    costs, shown = record["presets"][preset]["steps"][results.kind], []
    for variant in results.variants:
        cost = costs[variant]
        recorded = (ASSETS / "timelines" / gpu.name / f"{system}_{variant}.json").exists()
        if recorded and STEPS.get(system) == (preset, results.kind) and "loop_us" not in cost:
            cost = cost | {"idle_share": recording(system, variant, gpu.name).idle_share()}
        shown.append(results.cost(cost))
    return shown


def results_table(benchmarks: Path) -> str:
    """Returns the table of each GPU's figures, the GPU with the newest record first."""
    rows = []
    days = {
        gpu: max(json.loads(path.read_text())["date"] for path in gpu.glob("*.json"))
        for gpu in sorted(benchmarks.iterdir())
        if gpu.is_dir()
    }
    for gpu in sorted(days, key=lambda gpu: days[gpu], reverse=True):
        for system, results in SYSTEMS.items():
            path = gpu / f"{system}.json"
            if not path.exists():
                continue
            record = json.loads(path.read_text())
            link = f"[{record['accelerator']}]({relative(path, PAGE)})"
            for preset, words in results.presets.items():
                if preset in record["presets"]:
                    shown = costs_of(gpu, system, preset)
                    rows.append([link, f"{results.step}, {words}", *shown, record["date"]])
    return table(["GPU", "what", "before", "after", "measured"], rows)


def engine_table(benchmarks: Path) -> str:
    """Returns the table of the engine's decode steps, each one of many in a row: a row for each GPU
    and variant, a column for each model."""
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
            rows.append([link, variant, *cells, record["date"]])
    return table(["GPU", "switched on", *engine.presets.values(), "measured"], rows)


def validation_table(assets: Path) -> str:
    """Returns the table of validations, one row for each record: how many parts passed, and which
    did not."""
    from tests.validation.state import states

    rows = []
    for state in states(assets):
        link = f"[{state.gpu}]({relative(state.path, PAGE)})"
        passed = f"{len(state.named('passed'))} of {len(state.parts)}"
        rows.append([link, passed, state.others, state.versions, state.dates])
    return table(["GPU", "parts that passed", "others", "with", "when"], rows)


def draw_pictures(gpu: str, pictures: Path) -> None:
    """Writes a picture of each system that was recorded on `gpu`, before and after: one step, or
    several steps if its figures are of several."""
    pictures.mkdir(parents=True, exist_ok=True)
    for system, results in SYSTEMS.items():
        if not (ASSETS / "timelines" / gpu / f"{system}_{results.pictured[1]}.json").exists():
            continue
        then, now = (recording(system, variant, gpu) for variant in results.pictured)
        (pictures / f"{system}.png").write_bytes(draw_png(now, then))


if __name__ == "__main__":
    sys.exit(main())
