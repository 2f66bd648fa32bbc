"""Runs a command that takes long: with its own bars on a terminal, and with lines in a log."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from failure import Failure

SILENCE_SECONDS = 10
"""The most seconds without a line in a log."""
DULL = (" + ", " - ", " ~ ")
"""Prefixes of uv's lines that name one package each; a log leaves them out."""


def run(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> None:
    """Runs a command, and shows its output while it runs. Raises Failure if it fails."""
    words = [str(word) for word in command]
    around = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    around.pop("VIRTUAL_ENV", None)
    around |= environment or {}
    if sys.stdout.isatty():
        code = subprocess.run(words, env=around, check=False).returncode
    else:
        code = _run_in_lines(words, around)
    if code:
        free = shutil.disk_usage(_there(words)).free / 1e9
        full = f" Only {free:.1f} GB is free on this disk." if free < 3 else ""
        raise Failure(
            f"{Path(words[0]).name} could not do it, and says why above.{full} What has arrived is "
            "kept: run it again to go on."
        )


def _run_in_lines(words: list[str], around: dict[str, str]) -> int:
    began = last = time.monotonic()
    free = shutil.disk_usage(_there(words)).free
    done = threading.Event()

    def beat() -> None:
        while not done.wait(1):
            nonlocal last
            now = time.monotonic()
            if now - last >= SILENCE_SECONDS:
                last = now
                more = max(0, free - shutil.disk_usage(_there(words)).free) / 1e6
                print(f"  {now - began:.0f} s, {more:.0f} MB more on this disk", flush=True)

    with subprocess.Popen(
        words,
        env=around,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        threading.Thread(target=beat, daemon=True).start()
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() and not line.startswith(DULL):
                last = time.monotonic()
                print(f"  {line.rstrip()}", flush=True)
        code = process.wait()
    done.set()
    return code


def _there(words: list[str]) -> Path:
    """Returns a folder on the disk that the command fills: that of the Python it installs for, or
    of its program."""
    named = Path(
        words[words.index("--python") + 1] if "pip" in words and "--python" in words else words[0]
    )
    return next(folder for folder in named.parents if folder.exists())
