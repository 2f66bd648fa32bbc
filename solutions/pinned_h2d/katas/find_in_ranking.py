"""The answers to the questions about the recording of `ranking`."""

from __future__ import annotations


def find_in_ranking() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "ranking.py:27", "ranking.py:28", "ranking.py:30", "ranking.py:33"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "7 %", "13 %", "36 %", "64 %"
    """
    # The idle time before the kernels of this line and at its copies is 34 percent: the host
    # waits, and launches nothing meanwhile. From pinned memory a short copy is left.
    return {"line": "ranking.py:30", "kind": "pageable upload", "gain": "36 %"}
