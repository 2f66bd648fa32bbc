"""Find it: prefixes from CPU memory (chapter 05, medium, 15 minutes).

A server prefills requests whose prefixes lie in pinned CPU memory, and uploads the images of the
next request meanwhile. The code is `katas/offload/recorded/prefixes.py`, and sim has recorded three
prefills. You write no code here: read the recording, and answer three questions about it.

    debubble trace katas/offload/recorded/prefixes.json

line: which line costs the most? If you change this line alone, so that it no longer waits or holds
anything back, the recording becomes shorter than for any other line.

kind: by which mechanism does it cost time? It waits for an upload from pageable memory, or for a
value that the host reads; or it launches kernels later than the device could run them; or it queues
a pinned copy before kernels, which wait for it.

gain: which share of the recording goes? Look at what the line holds back, and at what still has to
be waited for.

You need to know that work on one stream runs in order, and on two streams side by side.

Edit this file, then run

    .venv/bin/pytest katas/offload/test_find_in_prefixes.py

Stuck?         .venv/bin/debubble hint find_in_prefixes
Start afresh?  .venv/bin/debubble reset find_in_prefixes
"""

from __future__ import annotations


# Yours to edit, from here on.
def find_in_prefixes() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "prefixes.py:33", "prefixes.py:37", "prefixes.py:39", "prefixes.py:41"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "29 %", "36 %", "43 %"
    """
    return {"line": "?", "kind": "?", "gain": "?"}
