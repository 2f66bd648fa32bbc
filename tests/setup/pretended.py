"""A checkout with only the files that its set-up reads, and a uv that only notes its calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from shlex import quote

ROOT = Path(__file__).parents[2]

UV = """#!/bin/sh
# `venv` makes a real environment without packages; `pip install` only says what it was called with.
echo "uv $*" >> {log}
for last; do :; done
case "$1" in
    venv) exec {python} -m venv --without-pip "$last" ;;
    pip) {installs} ;;
esac
"""


class Pretended:
    def __init__(self, folder: Path, python: str, installs: str = "exit 0", says: str = "hello"):
        self.folder = folder
        self.log = folder.parent / "calls.log"
        folder.mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        for name in ("scripts", "pins"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        package = folder / "debubble"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(f"main = lambda: print({says!r})\n")
        self.uv = folder.parent / "uv"
        self.uv.write_text(
            UV.format(log=quote(str(self.log)), python=quote(python), installs=installs)
        )
        self.uv.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def around(self) -> dict[str, str]:
        """Returns the environment variables of a fresh terminal for this checkout, without those of
        the `make test` that runs the tests."""
        ours = ("MAKE", "MFLAGS", "PYTHON", "VENV", "TORCH", "WHEELS", "PIP_", "UV")
        around = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        return around | {
            "UV": str(self.uv),
            "HOME": str(self.folder.parent / "home"),
            "PIP_CONFIG_FILE": os.devnull,
            "DEBUBBLE_CPU_INDEX": f"file://{self.folder.parent}",
        }

    def make(self, target: str = "install", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", *filter(None, [target])],
            cwd=self.folder,
            env=self.around() | variables,
            capture_output=True,
            text=True,
            check=False,
        )
