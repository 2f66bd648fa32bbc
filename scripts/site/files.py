"""The files that pages share: scripts and one style sheet, with nothing from elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from debubble.views.controls import slider
from debubble.views.dashboard import status, table
from debubble.views.javascript import one_module
from debubble.views.race import facts
from debubble.views.timeline import widget

from . import trace

HERE = Path(__file__).parent
LESSONS = HERE.parents[1] / "solutions"
WIDGETS = {
    "timeline": widget.SOURCE,
    "slider": slider.SOURCE,
    "status": status.SOURCE,
    "figures": table.SOURCE,
}
"""The browser's parts of the live views, the same as in JupyterLab, by the name that pages use."""


def write_static(folder: Path) -> None:
    (folder / "static").mkdir(parents=True)
    (folder / "static/site.js").write_text(script())
    shutil.copytree(HERE.parents[1] / "assets/pictures", folder / "static/pictures")
    (folder / "static/race.js").write_text(race_script())
    (folder / "static/trace.js").write_text(trace.script())
    (folder / "static/example.js").write_text(trace.example())
    (folder / "static/site.css").write_text((HERE / "style.css").read_text())


def write_archive(folder: Path, root: Path) -> str:
    """Writes the repository's committed files as one archive, for readers who have only the site.
    Returns its path from the site's folder, or "" if `root` is no repository."""
    path = "static/debubble.zip"
    target = str(folder / path)
    command = ["git", "-C", str(root), "archive", "--prefix=debubble/", "-o", target, "HEAD"]
    done = (root / ".git").exists() and subprocess.run(command, check=False).returncode == 0
    return path if done else ""


def script() -> str:
    """Returns the script that all pages share, with the live views in it. It is a classic script: a
    browser that opens a page from a file refuses to load modules."""
    own = one_module(HERE / "browser/site.js")
    return f"(() => {{\n{live_parts()}\n{own}\n}})();\n"


def live_parts() -> str:
    """Returns the tables of live views and of drawings that `browser/views.js` needs."""
    widgets = ",\n".join(f"{name}: {as_value(source)}" for name, source in WIDGETS.items())
    drawings = ",\n".join(f"{path.stem}: {as_value(one_module(path))}" for path in scripts())
    return f"const WIDGETS = {{\n{widgets}\n}};\nconst DRAWINGS = {{\n{drawings}\n}};"


def scripts() -> list[Path]:
    """Returns the files that draw chapters' pictures again when a slider moves."""
    return sorted(LESSONS.glob("*/pictures/*.js"))


def race_script() -> str:
    """Returns the script of pages with a race, which starts each race of the page."""
    own = one_module(HERE / "browser/start_race.js")
    return f"(() => {{\nconst RACE = {as_value(facts.source())};\n{own}\n}})();\n"


def as_value(module: str) -> str:
    """Returns a JavaScript expression whose value is the default export of `module`, the source of
    a module."""
    body = module.replace("export default {", "const WIDGET = {")
    return f"(() => {{\n{body}\nreturn WIDGET;\n}})()"
