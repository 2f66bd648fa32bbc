"""The data of the page on which a trace is dropped: the rules that Python and JavaScript share."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from debubble.traces import findings, host, names, reading, rows, summary

from ..javascript import one_module
from ..timeline.packing import BUBBLE_COLUMNS, EVENT_COLUMNS, MOST_LANES
from ..timeline.palette import palette

BROWSER = Path(__file__).parent / "browser"


def facts() -> dict[str, object]:
    """Returns the names, patterns and limits by which `debubble.traces` reads a trace."""
    return {
        "categories": rows.CATEGORIES,
        "latest": rows.LATEST,
        "far": reading.FAR,
        "marks": [names.BEGIN, names.END],
        "default_stream": names.DEFAULT_STREAM,
        "loader": host.LOADERS[0],
        "machinery": sorted(names.MACHINERY | sys.stdlib_module_names),
        "patterns": {
            "waits": names.WAITS.pattern,
            "allocates": host.ALLOCATES.pattern,
            "locks": f"^(?:{host.LOCKS.pattern})",
            "function": f"^(?:{names.FUNCTION.pattern.replace('?P<', '?<')})$",
            "installed": names.INSTALLED.pattern,
            "library": names.LIBRARY.pattern,
        },
        "causes": {
            "after_wait": findings.AFTER_WAIT,
            "host": findings.HOST_CAUSES,
            "copy": findings.COPY,
            "stream": findings.STREAM,
            "longest_handover": findings.LONGEST_HANDOVER,
            "slow": findings.SLOW,
            "gap": findings.GAP,
            "other": findings.OTHER,
            "unseen": findings.UNSEEN,
        },
        "notes": summary.NOTES,
        "layout": {"events": EVENT_COLUMNS, "bubbles": BUBBLE_COLUMNS},
        "most_lanes": MOST_LANES,
        "palette": palette(),
    }


def module(entry: str) -> str:
    """Returns the module `entry` of the folder `browser`, with all that it imports and the data."""
    return f"const FACTS = {json.dumps(facts())};\n{one_module(BROWSER / entry)}"
