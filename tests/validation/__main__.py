"""`python -m tests.validation`: tests, katas, chapters and benchmarks on this machine, recorded.

Runs the parts that never passed here on the source as it is, those that measure nothing side by
side. A part that fails is recorded as failed and the others still run; the exit code is then 1.
The record is written after every part, so a run that is cut short leaves what it got through.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from debubble.accelerator import lease
from debubble.assets import slug

from .parts import ROOT, Part, all_parts
from .record import (
    KEPT,
    OLD_FIGURES,
    Record,
    device_of,
    is_finished,
    now,
    read,
    state_of,
    versions,
    write,
)
from .running import run_all, watched_memory
from .sources import SourceTree
from .state import print_states


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.state or options.check:
        all_current = print_states(options.assets, ROOT)
        return int(options.check and not all_current)
    if options.device == "cuda" and (missing := no_cuda()):
        print(missing, file=sys.stderr)
        return 2
    if options.device == "cuda":
        lease.wait_for_turn()

    device = device_of(options.device)
    name = slug(device["gpu"]) + (f"-x{device['gpus']}" if device["gpus"] > 1 else "")
    path = options.assets / "validation" / f"{name}.json"
    with tempfile.TemporaryDirectory() as scratch:
        written = Path(scratch) if options.keep_figures else options.assets
        folders = (written / kind / name for kind in ("benchmarks", "timelines"))
        once = 1 if options.keep_figures else None
        parts = all_parts(options.device, device["gpus"], *folders, once)
        refuse_unknown([*options.only, *options.skip], parts)
        return validate(options, parts, {**device, **read(path)}, path)


def validate(options: argparse.Namespace, parts: list[Part], record: Record, path: Path) -> int:
    import matplotlib.font_manager  # noqa: F401  # Its first import is slow, and may say so.

    tree, here = SourceTree(ROOT), versions(options.device)
    sources = {part.name: tree.hash_of(part.rests_on, part.leaves_out) for part in parts}
    earlier = record.get("parts", {})
    wanted = [part for part in parts if is_wanted(part, options, earlier, sources, here)]
    record |= {
        "finished": False,
        "parts": {name: earlier[name] for name in earlier if name in sources},
    }
    seconds = seconds_elsewhere(options.assets) | seconds_of(record)
    failed = False
    with nullcontext() if options.keep_figures else watched_memory(options.device) as memory:
        for part, result in run_all(
            wanted, options.processes, lambda part: seconds.get(part.name, 60.0)
        ):
            about = {"source_sha256": sources[part.name], "date": now(), "versions": here}
            if part.measures:
                about["figures"] = KEPT if options.keep_figures else "written"
            else:
                about["processes_beside"] = options.processes
                about["peak_gpu_gib"] = memory and memory.peak_gib
            record["parts"][part.name] = result | about
            record["finished"] = is_finished(record, sources)
            write(record, path)
            failed |= result["status"] == "failed"
            print(f"=== {line(part.name, result)}", flush=True)
    return summary(record, path, wanted, failed)


def seconds_of(record: Record) -> dict[str, float]:
    return {name: result["seconds"] for name, result in record.get("parts", {}).items()}


def seconds_elsewhere(assets: Path) -> dict[str, float]:
    """What each part took on any GPU: enough to know which are the long ones."""
    known: dict[str, float] = {}
    for path in sorted((assets / "validation").glob("*.json")):
        known |= seconds_of(read(path))
    return known


def is_wanted(
    part: Part,
    options: argparse.Namespace,
    earlier: dict[str, dict],
    sources: dict[str, str],
    here: dict[str, str | None],
) -> bool:
    if part.name in options.skip or (part.measures and options.without_benchmarks):
        return False
    if options.only:
        return part.name in options.only
    result = earlier.get(part.name)
    holds = ("passed", OLD_FIGURES) if options.keep_figures else ("passed",)
    is_held = state_of(result, sources[part.name]) in holds and result["versions"] == here
    return options.all or not is_held


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.validation", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--assets", type=Path, default=ROOT / "assets", help="where to record")
    parser.add_argument(
        "--processes", type=int, default=8, metavar="N", help="on the device at once (8)"
    )
    part = {"action": "append", "metavar": "PART", "default": []}
    parser.add_argument(
        "--only",
        **part,
        help="tests-, katas- or benchmark-SYSTEM, chapter-NAME, tests-truth, "
        "or ranks: these alone, current or not; may be given more than once",
    )
    parser.add_argument("--skip", **part, help="all but this; may be given more than once")
    parser.add_argument("--without-benchmarks", action="store_true", help="what measures no time")
    parser.add_argument(
        "--keep-figures",
        action="store_true",
        help="others use this GPU meanwhile: run the benchmarks, each step once, leave the recorded"
        " figures be, and don't say how much memory was in use",
    )
    parser.add_argument("--all", action="store_true", help="what is current, too")
    parser.add_argument("--state", action="store_true", help="run nothing; say what is stale")
    parser.add_argument("--check", action="store_true", help="the same; exit with 1 if any part is")
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"--processes {options.processes}: at least one process has to run")
    options.assets = options.assets.resolve()
    return options


def refuse_unknown(names: list[str], parts: list[Part]) -> None:
    known = [part.name for part in parts]
    for name in names:
        if name not in known:
            sys.exit(f"no part is called {name!r}; there are {', '.join(known)}")


def no_cuda() -> str | None:
    import torch

    if torch.cuda.is_available():
        return None
    return (
        f"No CUDA GPU here: torch {torch.__version__} finds none. Run this on a GPU host, or "
        "try the validation itself with --device sim --assets FOLDER."
    )


def summary(record: Record, path: Path, ran: list[Part], failed: bool) -> int:
    print(f"\n=== {record['gpu']}: {len(ran)} parts ran")
    for name, result in record["parts"].items():
        print(line(name, result))
        for failure in result.get("failures", []):
            print(f"    {failure}")
    print(f"recorded in {path}")
    return int(failed)


def line(name: str, result: dict) -> str:
    tests = (
        f"{result['passed']} passed, {result['failed']} failed, {result['skipped']} skipped"
        if "skipped" in result
        else f"exit code {result['exit_code']}"
    )
    return f"{name:<24} {result['status']:<7} {tests}, {result['seconds']} s"


if __name__ == "__main__":
    sys.exit(main())
