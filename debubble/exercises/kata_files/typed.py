"""Commands as a learner types them: with the environment's folder if that is not on their PATH."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def typed(command: str) -> str:
    """Returns `command`, such as "debubble hint", as it works in the current folder and shell: as
    it is, or with the folder of the running Python in front, `.venv/bin/debubble hint`."""
    name = command.partition(" ")[0]
    script = Path(sys.executable).with_name(name)
    on_the_path = shutil.which(name)
    if not script.is_file() or (on_the_path and script.samefile(on_the_path)):
        return command
    here = Path.cwd()
    shown = script.relative_to(here) if script.is_relative_to(here) else script
    return f"{shown}{command.removeprefix(name)}"
