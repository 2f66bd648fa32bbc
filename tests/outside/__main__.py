"""`python -m tests.outside`: fetches what `manifest.toml` names, runs it, and prints a table."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path

from .programs import HERE, ROOT, Program, Run, fetch, prepare, programs, run

sys.path.append(str(ROOT / "scripts"))
from generated_part import GeneratedPart, table

PAGE = HERE / "README.md"
HEADINGS = ("program", "seconds under sim", "on the CPU", "lines that wait", "measured")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outside", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of the manifest (all)")
    parser.add_argument("--mirror", type=Path, help="a folder of clones, instead of GitHub")
    parser.add_argument("--fetch", action="store_true", help="fetch alone: pytest runs them later")
    parser.add_argument("--install", action="store_true", help="pip install what they need first")
    parser.add_argument(
        "--beside-cpu",
        action="store_true",
        help="run each on the CPU as well, and write the seconds of both into the README",
    )
    options = parser.parse_args()
    known = {program.name: program for program in programs()}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no program is called {unknown[0]!r}; there are {', '.join(known)}")
    failed, names = False, options.names or [*known]
    if options.install:
        install({package for name in names for package in known[name].missing})
    for name in names:
        program = known[name]
        if program.missing:
            print(f"{name:<32} left out: pip install {' '.join(program.missing)}", flush=True)
            continue
        fetch(program, options.mirror)
        if options.fetch:
            continue
        prepare(program)
        with tempfile.TemporaryDirectory() as folder:
            ran = run(program, Path(folder) / "findings.json")
        differs, lines = ran.differs(program), len(ran.report["findings"])
        rows = f"{lines} lines wait, {len(program.waits)} seen, {len(differs)} not as expected"
        print(f"{name:<32} exit code {ran.exit_code}, {ran.seconds:.1f} s, {rows}", flush=True)
        if ran.exit_code or differs:
            print(ran.printed[-4000:], *differs, sep="\n", flush=True)
            failed = True
        elif options.beside_cpu:
            write_row(program, ran, None if program.on_cpu is False else run(program, None))
    return int(failed)


def install(packages: set[str]) -> None:
    """Installs the newest versions of packages that fit the installed PyTorch."""
    python = [sys.executable, "-m"]
    subprocess.run([*python, "ensurepip"], check=True, stdout=subprocess.DEVNULL)
    pip = [*python, "pip", "install", "--quiet", f"torch=={version('torch')}"]
    subprocess.run([*pip, *sorted(packages)], check=True)


def write_row(program: Program, ran: Run, on_cpu: Run | None) -> None:
    """Writes a program's row of the README's table, and leaves the other rows as they are."""
    if on_cpu and on_cpu.exit_code:
        print(on_cpu.printed[-4000:], f"on the CPU: exit code {on_cpu.exit_code}", sep="\n")
        return
    seconds = f"{on_cpu.seconds:.0f}" if on_cpu else "no CPU mode"
    row = [f"{ran.seconds:.0f}", seconds, str(len(ran.report["findings"])), str(date.today())]
    rows = measured() | {program.name: row}
    ordered = [[each.name, *rows[each.name]] for each in programs() if each.name in rows]
    GeneratedPart(PAGE, "seconds", table(HEADINGS, ordered)).write()


def measured() -> dict[str, list[str]]:
    """Returns the cells of the README's rows by the program's name."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    names = {program.name for program in programs()}
    return {name: cells for name, *cells in lines if name in names}


if __name__ == "__main__":
    sys.exit(main())
