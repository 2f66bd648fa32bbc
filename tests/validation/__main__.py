"""`python -m tests.validation`: tests, katas, chapters and benchmarks on this machine, recorded.

A part that fails is recorded as failed and the later ones still run; the exit code is then 1. The
record is written after every part, so a run that is cut short leaves what it got through.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from debubble.assets import slug

from .parts import ROOT, all_parts, run
from .record import earlier_parts, new_record, write


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print(
            f"No CUDA GPU here: torch {torch.__version__} finds none. Run this on a GPU host, or "
            "try the validation itself with --device sim --assets FOLDER.",
            file=sys.stderr,
        )
        return 2

    record = new_record(options.device, ROOT)
    gpu = slug(record["gpu"]) + (f"-x{record['gpus']}" if record["gpus"] > 1 else "")
    path = options.assets / "validation" / f"{gpu}.json"
    folders = (options.assets / kind / gpu for kind in ("benchmarks", "timelines"))
    parts = all_parts(options.device, *folders)
    results = {part["part"]: part for part in earlier_parts(record, path)} if options.only else {}
    for part in parts:
        if not options.only or part.name in options.only:
            results[part.name] = run(part)
            record["parts"] = [results[part.name] for part in parts if part.name in results]
            record["finished"] = len(record["parts"]) == len(parts)
            write(record, path)
    return summary(record, path)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.validation", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--assets", type=Path, default=ROOT / "assets", help="where to record")
    parser.add_argument(
        "--only",
        action="append",
        metavar="PART",
        help="tests-sim, tests-cuda, ranks, katas, chapters or benchmark-SYSTEM, to run by itself "
        "and keep what the others left on this machine and source; may be given more than once",
    )
    options = parser.parse_args(arguments)
    names = [part.name for part in all_parts(options.device, options.assets, options.assets)]
    for name in options.only or []:
        if name not in names:
            parser.error(f"no part is called {name!r}; there are {', '.join(names)}")
    options.assets = options.assets.resolve()
    return options


def summary(record: dict[str, object], path: Path) -> int:
    print(f"\n=== {record['gpu']}, source {record['source_sha256'][:12]}")
    width = max(len(part["part"]) for part in record["parts"])
    for part in record["parts"]:
        tests = (
            f"{part['passed']} passed, {part['failed']} failed, {part['skipped']} skipped"
            if "skipped" in part
            else f"exit code {part['exit_code']}"
        )
        print(f"{part['part']:<{width}} {part['status']:<7} {tests}, {part['seconds']} s")
    print(f"recorded in {path}")
    return int(any(part["status"] == "failed" for part in record["parts"]))


if __name__ == "__main__":
    sys.exit(main())
