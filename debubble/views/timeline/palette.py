"""Colours of events and bubbles, safe for colour-blind eyes (after Okabe and Ito).

No meaning rests on colour alone: kinds differ in shape, hatching or words as well.
"""

from __future__ import annotations

from debubble.timeline.bubbles import CAUSES, Cause
from debubble.timeline.comparison import COUNT_WORDS

# The style of each event, in the order of drawing: the rare event lies on top.
EVENT_STYLES: dict[str, tuple[str, str, str]] = {
    "launch": ("launch", "#64748b", "#94a3b8"),
    "kernel": ("kernel", "#0072b2", "#4ba6dd"),
    "memset": ("memset", "#737373", "#a3a3a3"),
    "d2d": ("copy on the device", "#56b4e9", "#9bd7f7"),
    "h2d_pinned": ("pinned upload", "#009e73", "#2fcf9f"),
    "d2h": ("download", "#b5548a", "#e79cc6"),
    "h2d_pageable": ("pageable upload", "#d55e00", "#ff8b3d"),
    "graph_launch": ("graph launch", "#4b3b8f", "#a99df0"),
    "python": ("your Python", "#8c6d46", "#cbb08a"),
    "alloc": ("allocation by the driver", "#5f7a1f", "#a5c95a"),
    "compile": ("compilation", "#7b2d26", "#e08f86"),
    "sync": ("host sync", "#b97f00", "#f2b632"),
}
CAUSE_STYLES: dict[Cause, tuple[str, str]] = dict(
    zip(
        CAUSES,
        (
            ("#e69f00", "#f2b632"),
            ("#d55e00", "#ff8b3d"),
            ("#8a94a3", "#8d99a8"),
            ("#b5548a", "#e79cc6"),
        ),
        strict=True,
    )
)
CAUSE_HATCHES = dict(zip(CAUSES, ("////", "....", "", "xxxx"), strict=True))
INK, FAINT, GROUND = "#1f2933", "#55606d", "#ffffff"
"""The colours of words, of less important words and of the ground in a PNG."""


def palette() -> dict[str, object]:
    """Returns the colours and words of events and bubbles, and the words for counts, as the browser
    reads them."""
    return {
        "kinds": [
            {"key": key, "words": words, "light": light, "dark": dark}
            for key, (words, light, dark) in EVENT_STYLES.items()
        ],
        "counts": COUNT_WORDS,
        "causes": [
            {"words": cause, "light": light, "dark": dark}
            for cause, (light, dark) in CAUSE_STYLES.items()
        ],
    }
