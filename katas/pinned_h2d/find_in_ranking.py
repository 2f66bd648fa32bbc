"""Find it: a ranking service (chapter 01, easy, 10 minutes).

A service ranks 1,024 candidates for each request. Its code is
`katas/pinned_h2d/recorded/ranking.py`, and sim has recorded three requests. You write no code here:
read the recording, and answer three questions about it.

    debubble trace katas/pinned_h2d/recorded/ranking.json

line: which line costs the most? If you change this line alone, so that it no longer waits or holds
anything back, the recording becomes shorter than for any other line.

kind: by which mechanism does it cost time? It waits for an upload from pageable memory, or for a
value that the host reads; or it launches kernels later than the device could run them; or it queues
a pinned copy before kernels, which wait for it.

gain: which share of the recording goes?

You need to know what a pageable and a pinned upload look like in a timeline.

Edit this file, then run

    .venv/bin/pytest katas/pinned_h2d/test_find_in_ranking.py

Stuck?         .venv/bin/debubble hint find_in_ranking
Start afresh?  .venv/bin/debubble reset find_in_ranking
"""

from __future__ import annotations


# Yours to edit, from here on.
def find_in_ranking() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "ranking.py:27", "ranking.py:28", "ranking.py:30", "ranking.py:33"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "7 %", "13 %", "36 %", "64 %"
    """
    return {"line": "?", "kind": "?", "gain": "?"}
