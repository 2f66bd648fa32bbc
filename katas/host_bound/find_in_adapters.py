"""Find it: requests with adapters (chapter 07, medium, 15 minutes).

A server decodes requests that have an adapter each, beside a part of a prompt. The code is
`katas/host_bound/recorded/adapters.py`, and sim has recorded three steps. You write no code here:
read the recording, and answer three questions about it.

    debubble trace katas/host_bound/recorded/adapters.json

line: which line costs the most? If you change this line alone, so that it no longer waits or holds
anything back, the recording becomes shorter than for any other line.

kind: by which mechanism does it cost time? It waits for an upload from pageable memory, or for a
value that the host reads; or it launches kernels later than the device could run them; or it queues
a pinned copy before kernels, which wait for it.

gain: which share of the recording goes?

You need to know that a launch costs time only if the device waits for it.

Edit this file, then run

    .venv/bin/pytest katas/host_bound/test_find_in_adapters.py

Stuck?         .venv/bin/debubble hint find_in_adapters
Start afresh?  .venv/bin/debubble reset find_in_adapters
"""

from __future__ import annotations


# Yours to edit, from here on.
def find_in_adapters() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "adapters.py:32", "adapters.py:35", "adapters.py:37", "adapters.py:40"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "16 %", "50 %", "68 %"
    """
    return {"line": "?", "kind": "?", "gain": "?"}
