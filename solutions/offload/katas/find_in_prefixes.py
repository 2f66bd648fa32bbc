"""The answers to the questions about the recording of `prefixes`."""

from __future__ import annotations


def find_in_prefixes() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "prefixes.py:33", "prefixes.py:37", "prefixes.py:39", "prefixes.py:41"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "29 %", "36 %", "43 %"
    """
    # A copy on the stream of the kernels holds back the kernels that follow, also those that
    # don't need it. On another stream, before the images, all blocks but the first of each
    # prefill arrive while a layer runs: of 43 percent of idle time 7 stay.
    return {"line": "prefixes.py:37", "kind": "copy in the way", "gain": "36 %"}
