"""Find it: an engine on an H200 (chapter 06, medium, 15 minutes).

The engine of this chapter decodes 8 requests with the shape of Llama 3 8B, without any of its
optimizations. The recording has two steps on one H200, with measured times; under the recorder the
host is slower than usual. You write no code here: read the recording, and answer three questions.

    debubble trace katas/engine/recorded/engine_decode.json

line: which line should be changed first? Of the optimizations, one removes the uploads of
`step_inputs.py:116`, and one lets a graph hold the other three lines. Choose the line that is the
reason why the step is not one graph yet.

kind: by which mechanism does the line cost time? It waits for an upload from pageable memory, or
for a value that the host reads; or it launches kernels later than the device could run them; or it
queues a pinned copy before kernels, which wait for it.

gain: which share of the recording goes, if one graph holds the line and all others of the model?

You need to know that bubbles hide one another.

Edit this file, then run

    .venv/bin/pytest katas/engine/test_find_in_engine.py

Stuck?         .venv/bin/debubble hint find_in_engine
Start afresh?  .venv/bin/debubble reset find_in_engine
"""

from __future__ import annotations


# Yours to edit, from here on.
def find_in_engine() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "step_inputs.py:116", "before.py:101", "captured_step.py:78", "attention.py:32"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "4 %", "22 %", "40 %", "83 %"
    """
    return {"line": "?", "kind": "?", "gain": "?"}
