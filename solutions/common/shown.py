"""How a refusal shows a value that is wrong: in few words, and never by asking the device."""

from __future__ import annotations

import numpy as np
import torch

LONGEST = 60
"""Characters of a value: a number may have thousands."""


def shown(value: object) -> str:
    """A number, a flag or a word itself; of all else what it is, since to print a tensor is to read
    it."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return _short(value)
    if isinstance(value, torch.Tensor):
        return f"a {value.dtype} tensor {list(value.shape)} on {value.device}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    if isinstance(value, np.generic | torch.dtype | torch.device | range):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**LONGEST:
        return "an int of more than 60 digits"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
