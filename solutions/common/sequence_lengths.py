"""How long the sequences of a batch are, by where each one starts."""

from __future__ import annotations

import numpy as np

from .host_integers import HostIntegers, host_integers


def sequence_lengths(
    name: str, starts: HostIntegers, num_tokens: int | None = None, noun: str = "sequence"
) -> np.ndarray:
    """[num_seqs] int64, of `starts` [num_seqs + 1], integers on the host: where each sequence
    starts, then the end of the last one.

    ValueError, which calls them `name` and a sequence `noun`, if they don't begin at 0, decrease,
    or don't end at `num_tokens`.
    """
    starts = host_integers(name, starts)
    if not starts.size or starts[0] != 0:
        found = f"starts at {starts[0]}" if starts.size else "is empty"
        raise ValueError(f"{name} {found}: the first {noun} starts at 0")
    lengths = np.diff(starts)
    if lengths.min(initial=0) < 0:
        at = int(np.argmax(lengths < 0))
        raise ValueError(
            f"{name} goes from {starts[at]} down to {starts[at + 1]} at {noun} {at}: a {noun} ends "
            "where the next one starts, and never before its own start"
        )
    if num_tokens is not None and starts[-1] != num_tokens:
        raise ValueError(
            f"{name} ends at {starts[-1]}, and there are {num_tokens} tokens: the last {noun} ends "
            "with the last token"
        )
    return lengths
