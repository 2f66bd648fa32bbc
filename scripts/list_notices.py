"""Writes THIRD_PARTY_NOTICES.md: the packages that `make lab` installs, and their licences.

The licences come from the packages' metadata in the environment that runs this. `--check` writes
nothing, and exits with 1 if a package is not listed, or a listed one is not pinned.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from generated_part import GeneratedPart, only_check, table, write_or_check

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "THIRD_PARTY_NOTICES.md"
PIN = re.compile(r"^([a-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
CLASSIFIER = "License :: OSI Approved :: "


def main() -> int:
    checking = only_check(__doc__)
    if checking:
        return check(ROOT)
    installed = {_plain(found.name): found for found in distributions()}
    rows = [
        [f"[{name}]({home(installed[name])})", version, licence(installed[name])]
        for name, version in pinned(ROOT)
        if name in installed
    ]
    return write_or_check(
        [GeneratedPart(PAGE, "notices", table(["package", "version", "licence"], rows))], False
    )


def check(root: Path) -> int:
    """Checks that THIRD_PARTY_NOTICES.md lists the pinned packages in their versions, and returns
    the exit status. Packages of another system or of CUDA need not be listed: they can't be looked
    at here."""
    listed = dict(
        re.findall(r"^\| \[([^\]]+)\]\([^)]*\) \| (\S+) \|", (root / PAGE.name).read_text(), re.M)
    )
    wrong = [name for name, version in listed.items() if (name, version) not in pinned(root)]
    missing = [
        name
        for name, _ in pinned(root)
        if name not in listed and not re.match(r"(nvidia|cuda)-|appnope|colorama|pywinpty", name)
    ]
    for name in sorted([*wrong, *missing]):
        print(f"{PAGE.name}: {name} is not current: run scripts/list_notices.py", file=sys.stderr)
    return int(bool(wrong or missing))


def pinned(root: Path) -> list[tuple[str, str]]:
    return PIN.findall((root / "pins" / "lab.txt").read_text(encoding="utf-8"))


def licence(of: Distribution) -> str:
    """Returns the licence of a package as an SPDX expression if it has one, else in the package's
    own words."""
    said = of.metadata.get("License-Expression")
    if said:
        return said
    classified = [
        line.removeprefix(CLASSIFIER)
        for line in of.metadata.get_all("Classifier", [])
        if line.startswith(CLASSIFIER)
    ]
    text = (of.metadata.get("License") or "").strip().splitlines()
    return ", ".join(classified) or (text[0] if text else "see its page")


def home(of: Distribution) -> str:
    return f"https://pypi.org/project/{_plain(of.name)}/"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
