"""`python -m tests.validation`: runs tests, katas, chapters and benchmarks here, and records the
results.

Parts without a result run first, then those whose result is oldest. `--minutes` runs as many of
them as fit. The record is written after every part, so an interrupted run keeps its finished parts,
and the next run continues from there. The exit code is 1 if a part failed.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import time
from pathlib import Path

from debubble.accelerator import lease
from debubble.assets import slug

from .parts import ROOT, Part, all_parts
from .record import (
    Record,
    Result,
    age_order,
    circumstances,
    device_of,
    has_result,
    merged,
    now,
    read,
    seconds_of,
    write,
)
from .running import run_all
from .state import print_states


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.check:
        return int(not print_states(options.assets))
    if options.device == "cuda" and (missing := no_cuda()):
        print(missing, file=sys.stderr)
        return 2
    if options.device == "cuda":
        lease.wait_for_turn()

    device = device_of(options.device)
    name = slug(device["gpu"]) + (f"-x{device['gpus']}" if device["gpus"] > 1 else "")
    path = options.assets / "validation" / f"{name}.json"
    folders = (options.assets / kind / name for kind in ("benchmarks", "timelines"))
    parts = all_parts(options.device, device["gpus"], *folders)
    refuse_unknown([*options.only, *options.skip], parts)
    return validate(options, parts, {**device, **read(path)}, path)


def validate(options: argparse.Namespace, parts: list[Part], record: Record, path: Path) -> int:
    import matplotlib.font_manager  # noqa: F401  # Its first import is slow, and may say so.

    started = time.time()
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else None
    names = [part.name for part in parts]
    earlier: dict[str, Result] = record.get("parts", {})
    record["parts"] = {name: earlier[name] for name in earlier if name in names}
    known = elsewhere(options.assets) | record["parts"]

    def seconds(part: Part) -> float:
        return seconds_of(known.get(part.name))

    wanted = in_order(parts, options, record["parts"])
    chosen = [*fitting(wanted, seconds, options)]
    common = circumstances(options.device, options.commit, ROOT)
    failed, whole = False, set()
    for part, result in run_all(chosen, options.processes, seconds, deadline):
        result |= {"date": now(), **common}
        record["parts"][part.name] = merged(record["parts"].get(part.name), result)
        whole |= {part.name} if has_result(result) else set()
        write(record, path)
        if options.output:
            pack(options.assets, options.output, started)
        failed |= result["status"] == "failed"
        print(f"=== {line(part.name, result)}", flush=True)
        for failure in result.get("failures", []):
            print(f"    {failure}", flush=True)
    left = [part.name for part in wanted if part.name not in whole]
    print(f"\n{record['gpu']}: {len(whole)} parts ran, recorded in {path}")
    if left:
        print(f"The time was too short for {', '.join(left)}: the next run begins with them.")
    return int(failed)


def elsewhere(assets: Path) -> dict[str, Result]:
    """Returns {part: its result on any GPU}: enough to estimate how long the part takes."""
    known: dict[str, Result] = {}
    for path in sorted((assets / "validation").glob("*.json")):
        known |= read(path).get("parts", {})
    return known


def in_order(
    parts: list[Part], options: argparse.Namespace, earlier: dict[str, Result]
) -> list[Part]:
    """Returns the parts that the options select: those without a result in `earlier` first, then
    from the oldest result to the newest."""
    wanted = [part for part in parts if is_wanted(part, options)]
    return sorted(wanted, key=lambda part: age_order(earlier.get(part.name)))


def is_wanted(part: Part, options: argparse.Namespace) -> bool:
    if part.name in options.skip or (part.measures and options.without_benchmarks):
        return False
    return part.name in options.only if options.only else True


def fitting(wanted, seconds, options: argparse.Namespace):
    """Yields the parts that fit into `options.minutes` by the estimates `seconds`, in order. The
    first part always runs, since a part that never fits would never have a result."""
    left = options.minutes * 60 if options.minutes else float("inf")
    for position, part in enumerate(wanted):
        share = 1.0 if part.alone else min(part.processes, options.processes) / options.processes
        needed = seconds(part) * share
        if position and needed > left:
            continue
        left -= needed
        yield part


def pack(assets: Path, output: Path, since: float) -> None:
    """Writes all files of `assets` that changed after `since` (seconds of the epoch) to one
    archive, with paths below the checkout's root: `tar xzf` there puts them in place."""
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_name(output.name + ".part")
    with tarfile.open(unfinished, "w:gz") as archive:
        for path in sorted(assets.rglob("*")):
            if path.is_file() and path.stat().st_mtime >= since - 1:
                archive.add(path, Path("assets") / path.relative_to(assets))
    unfinished.replace(output)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.validation", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--assets", type=Path, default=ROOT / "assets", help="where to record")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="stop after so long, in the middle of a part too"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE.tar.gz", help="all that was recorded, in one file"
    )
    parser.add_argument(
        "--commit", help="the commit that is validated, where the checkout is no git repository"
    )
    parser.add_argument(
        "--processes", type=int, default=8, metavar="N", help="on the device at once (8)"
    )
    part = {"action": "append", "metavar": "PART", "default": []}
    parser.add_argument(
        "--only",
        **part,
        help="tests-, katas- or benchmark-SYSTEM, chapter-NAME, tests-truth or ranks: run these "
        "alone; may be given more than once",
    )
    parser.add_argument("--skip", **part, help="all but this; may be given more than once")
    parser.add_argument("--without-benchmarks", action="store_true", help="what measures no time")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run nothing; list the records, and exit with 1 if a part failed or has no result",
    )
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"--processes {options.processes}: at least one process has to run")
    if options.minutes is not None and not 0 < options.minutes < float("inf"):
        parser.error(f"--minutes {options.minutes}: a positive number of minutes is needed")
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


def line(name: str, result: Result) -> str:
    if result["status"] == "cut":
        return f"{name:<24} cut after {result['cut_after']} s"
    tests = (
        f"{result['passed']} passed, {result['failed']} failed, {result['skipped']} skipped"
        if "skipped" in result
        else f"exit code {result['exit_code']}"
    )
    return f"{name:<24} {result['status']:<7} {tests}, {result['seconds']} s"


if __name__ == "__main__":
    sys.exit(main())
