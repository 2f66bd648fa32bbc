"""Checks that code under test refuses wrong arguments instead of silently doing something wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .claims import expect_equal
from .diagnosis import Diagnosis, KataFailure


def expect_refusal(
    call: Callable[[], object], arguments: str, *, why: str, other: str = "", **kept: torch.Tensor
) -> None:
    """Checks that `call()` raises ValueError and leaves the tensors in `kept` as they were.
    `arguments` describes the wrong arguments in the failure's sentence, and `other` says what is
    wrong with another error, if that is not `why`. Raises KataFailure."""
    before = {name: value.clone() for name, value in kept.items()}
    did = "raised nothing"
    try:
        call()
    except Exception as error:
        did = f"raised {type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
        if isinstance(error, ValueError):
            for name, value in kept.items():
                after = f"`{name}`, after {arguments} was refused,"
                expect_equal(value, before[name], value=after, likely=why)
            return
        why = other or why
    raise KataFailure(Diagnosis(f"a ValueError for {arguments}", did, why=why))
