"""The answers to the questions about the recording of `sampling`."""

from __future__ import annotations


def find_in_sampling() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "sampling.py:31", "sampling.py:34", "sampling.py:37", "sampling.py:41"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "2 %", "9 %", "31 %", "51 %"
    """
    # The zero is a Python number. Assigned through an index it becomes a tensor on the host, and
    # is uploaded. The wait lets the host start the launches after it only when the model is done.
    return {"line": "sampling.py:34", "kind": "pageable upload", "gain": "31 %"}
