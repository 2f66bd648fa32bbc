"""Writes pins/: the versions of constraints.txt with their hashes, for every platform.

    scripts/renew_pins.py            the hashes of the versions in constraints.txt; adds a package
                                     that is new in pyproject.toml to it
    scripts/renew_pins.py --newest   the newest versions that go together, into constraints.txt too;
                                     torch and triton stay, since they move with a GPU's validation
    scripts/renew_pins.py --check    writes nothing and uses no network: checks that pins/ agrees
                                     with constraints.txt, and that every pin has hashes

It needs uv, and takes the hashes from PyPI.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {"lab": ["lab"], "test": ["lab", "test"], "hub": ["lab", "hub"]}
OLDEST_PYTHON = "3.11"
STAYS = ("torch", "triton")
NOT_HERE = re.compile(r"(nvidia|cuda)-|appnope|colorama|pywinpty")
PIN = re.compile(r"^([a-z0-9._-]+)==([^\s;]+)(?: *; *([^\\\n]+?))?(?: \\)?$", re.MULTILINE)
HEADER = (
    "# Written by scripts/renew_pins.py from constraints.txt: with hashes, for every platform.\n"
)
UV_HEADER = "# Written by scripts/renew_pins.py: the uv that make-environment brings.\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--newest", action="store_true")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    if asked.check:
        complaints = faults(ROOT)
        print("\n".join(complaints), file=sys.stderr)
        return int(bool(complaints))
    uv = shutil.which("uv")
    if uv is None:
        sys.exit("renew_pins needs uv on the path: pip install uv")
    constraints = ROOT / "constraints.txt"
    newest = {name: pin for name, pin in versions(constraints).items() if name in STAYS}
    write_versions(uv, constraints, newest if asked.newest else versions(constraints))
    for extra, extras in EXTRAS.items():
        text = resolve(uv, extras, constraints, hashes=True)
        (ROOT / "pins" / f"{extra}.txt").write_text(HEADER + text, encoding="utf-8")
    write_uv(uv, asked.newest)
    return 0


def faults(root: Path) -> list[str]:
    """Returns a sentence for each pin that differs from constraints.txt or has no hash, and for
    each version in constraints.txt that no file of pins/ has; then what to run. Empty if all
    agree."""
    asked = {(name, version) for name, version, _ in _pins(root / "constraints.txt")}
    names = {name for name, _ in asked}
    found = []
    for extra in EXTRAS:
        path = root / "pins" / f"{extra}.txt"
        text = path.read_text(encoding="utf-8")
        for name, version, _ in PIN.findall(text):
            if name in names and (name, version) not in asked:
                found.append(
                    f"pins/{extra}.txt: {name}=={version} is not what constraints.txt says"
                )
        for block in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]:
            if "--hash=sha256:" not in block:
                found.append(f"pins/{extra}.txt: {block.split()[0]} has no hash")
    if not any("--hash=sha256:" in line for line in (root / "pins/uv.txt").open(encoding="utf-8")):
        found.append("pins/uv.txt has no hash")
    held = {pin[:2] for extra in EXTRAS for pin in _pins(root / "pins" / f"{extra}.txt")}
    found += [
        f"constraints.txt: {name}=={version} is in no file of pins/"
        for name, version in asked - held
    ]
    return sorted(found) and [*sorted(found), "run scripts/renew_pins.py"]


def versions(constraints: Path) -> dict[str, str]:
    return {name: f"{name}=={version}" for name, version, _ in _pins(constraints)}


def write_versions(uv: str, constraints: Path, staying: dict[str, str]) -> None:
    """Writes constraints.txt with all packages of all extras, keeping the versions in `staying`.
    Packages that only another system or CUDA needs are not listed there: pins/ has them with their
    hashes."""
    comments = [line for line in constraints.read_text().splitlines() if line.startswith("#")]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(staying.values()) + "\n")
        file.flush()
        text = resolve(uv, ["lab", "test", "hub"], Path(file.name), hashes=False)
    here = [
        f"{name}=={version}" + (f" ; {marker}" if "python" in marker else "")
        for name, version, marker in PIN.findall(text)
        if not NOT_HERE.match(name)
    ]
    constraints.write_text("\n".join([*comments, *here]) + "\n")


def write_uv(uv: str, newest: bool) -> None:
    """Writes pins/uv.txt with the version of uv that installs the packages, and its hashes: the
    pinned version, or with `newest` the newest. uv is no part of an environment."""
    path = ROOT / "pins" / "uv.txt"
    (pinned,) = [f"{name}=={version}" for name, version, _ in _pins(path)]
    command = [uv, "pip", "compile", "-", "--quiet", "--universal", "--no-header", "--no-annotate"]
    command += ["--generate-hashes"]
    path.write_text(UV_HEADER + _compiled(command, "uv" if newest else pinned), encoding="utf-8")


def resolve(uv: str, extras: list[str], constraints: Path, *, hashes: bool) -> str:
    command = [uv, "pip", "compile", "pyproject.toml", "--quiet", "--universal", "--no-header"]
    command += [
        "--no-annotate",
        "--python-version",
        OLDEST_PYTHON,
        "--constraint",
        str(constraints),
    ]
    command += [f"--extra={extra}" for extra in extras] + ["--generate-hashes"] * hashes
    return _compiled(command)


def _compiled(command: list[str], wanted: str = "") -> str:
    done = subprocess.run(
        command, cwd=ROOT, input=wanted, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"no versions go together:\n{done.stderr}")
    return done.stdout


def _pins(path: Path) -> list[tuple[str, str, str]]:
    return PIN.findall(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
