"""Find it: convolutions in six layers (chapter 03, medium, 15 minutes).

Six layers run convolutions over the sequences of a prefill, chunk by chunk. The code is
`katas/gdn/recorded/convolutions.py`, and sim has recorded three steps. You write no code here: read
the recording, and answer three questions about it.

    debubble trace katas/gdn/recorded/convolutions.json

line: which line costs the most? If you change this line, so that it waits once a step at most, the
recording becomes shorter than for any other line.

kind: by which mechanism does it cost time? It waits for an upload from pageable memory, or for a
value that the host reads; or it launches kernels later than the device could run them; or it queues
a pinned copy before kernels, which wait for it.

gain: which share of the recording goes, if the line's work is done once a step and without a wait?

You need to know that a table made from lengths is the same for all layers of a step.

Edit this file, then run

    .venv/bin/pytest katas/gdn/test_find_in_convolutions.py

Stuck?         .venv/bin/debubble hint find_in_convolutions
Start afresh?  .venv/bin/debubble reset find_in_convolutions
"""

from __future__ import annotations


# Yours to edit, from here on.
def find_in_convolutions() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "convolutions.py:28", "convolutions.py:30", "convolutions.py:34",
          "convolutions.py:41"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "27 %", "36 %", "45 %"
    """
    return {"line": "?", "kind": "?", "gain": "?"}
