"""Find it: a step with two graphs (chapter 04, medium, 15 minutes).

A decode step replays two CUDA graphs, one for each half of the model. The code is
`katas/flex_graph/recorded/paged_decode.py`, and sim has recorded three steps. You write no code
here: read the recording, and answer three questions about it.

    debubble trace katas/flex_graph/recorded/paged_decode.json

line: which line costs the most? If you change this line alone, so that it no longer waits or holds
anything back, the recording becomes shorter than for any other line.

kind: by which mechanism does it cost time? It waits for an upload from pageable memory, or for a
value that the host reads; or it launches kernels later than the device could run them; or it queues
a pinned copy before kernels, which wait for it.

gain: which share of the recording goes?

You need to know that a graph is one launch for many kernels.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_find_in_decoding.py

Stuck?         .venv/bin/debubble hint find_in_decoding
Start afresh?  .venv/bin/debubble reset find_in_decoding
"""

from __future__ import annotations


# Yours to edit, from here on.
def find_in_decoding() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "paged_decode.py:29", "paged_decode.py:43", "paged_decode.py:47",
          "paged_decode.py:50"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "5 %", "16 %", "30 %", "50 %"
    """
    return {"line": "?", "kind": "?", "gain": "?"}
