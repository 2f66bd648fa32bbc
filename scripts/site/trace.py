"""The script of the page on which a trace is dropped."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

from debubble.views.dropped.facts import module
from debubble.views.javascript import one_module
from debubble.views.timeline import widget

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "docs/examples/loader.trace.json.gz"


def script() -> str:
    """Returns the script of the page: its own part, the timeline's view, and the worker's source
    as text, since a page that was opened from a file can't load one."""
    view = widget.SOURCE.replace("export default {", "const WIDGET = {")
    worker = json.dumps(module("worker.js")).replace("</", "<\\/")
    own = one_module(HERE / "browser/open_trace.js")
    return (
        f"(() => {{\nconst TIMELINE = (() => {{\n{view}\nreturn WIDGET;\n}})();\n"
        f"const WORKER = {worker};\n{own}\n}})();\n"
    )


def example() -> str:
    """Returns a script that hands the page the trace of the guides, as a page from a file can't
    read another file."""
    text = b64encode(EXAMPLE.read_bytes()).decode()
    return f"debubbleExample({json.dumps(EXAMPLE.name)}, {json.dumps(text)});\n"
