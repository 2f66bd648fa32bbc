"""Find it: a sampler with penalties (chapter 02, medium, 15 minutes).

A sampler penalizes tokens that a request has had before. Its code is
`katas/sync_free/recorded/sampling.py`, and sim has recorded three decode steps. You write no code
here: read the recording, and answer three questions about it.

    debubble trace katas/sync_free/recorded/sampling.json

line: which line costs the most? If you change this line alone, so that it no longer waits or holds
anything back, the recording becomes shorter than for any other line.

kind: by which mechanism does it cost time? It waits for an upload from pageable memory, or for a
value that the host reads; or it launches kernels later than the device could run them; or it queues
a pinned copy before kernels, which wait for it.

gain: which share of the recording goes?

You need to know what a host sync does to the launches that follow it.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_find_in_sampling.py

Stuck?         .venv/bin/debubble hint find_in_sampling
Start afresh?  .venv/bin/debubble reset find_in_sampling
"""

from __future__ import annotations


# Yours to edit, from here on.
def find_in_sampling() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "sampling.py:31", "sampling.py:34", "sampling.py:37", "sampling.py:41"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "2 %", "9 %", "31 %", "51 %"
    """
    return {"line": "?", "kind": "?", "gain": "?"}
