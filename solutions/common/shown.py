"""Shows a wrong value in an error message: in few words, and without a host sync."""

from __future__ import annotations

import numpy as np
import torch

LONGEST = 60
"""The most characters of a value that are shown: a number may have thousands."""


def shown(value: object) -> str:
    """Returns a number, a flag or a word itself, and a description of any other value, since
    printing a tensor reads it from the device."""
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
