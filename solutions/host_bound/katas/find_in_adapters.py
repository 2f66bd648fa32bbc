"""The answers to the questions about the recording of `adapters`."""

from __future__ import annotations


def find_in_adapters() -> dict[str, str]:
    """Returns your answers, each one of these choices.

    line: "adapters.py:32", "adapters.py:35", "adapters.py:37", "adapters.py:40"
    kind: "pageable upload", "read on the host", "late launches", "copy in the way"
    gain: "16 %", "50 %", "68 %"
    """
    # 48 launches in each step before the prompt's work, one by one: the device is faster than the
    # host. The launches of the other loop are made while the device works on the prompt.
    return {"line": "adapters.py:35", "kind": "late launches", "gain": "50 %"}
