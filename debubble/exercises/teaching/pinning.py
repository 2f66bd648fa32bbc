"""Records how much pinned memory the code under test makes and where, and simulates a platform
without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, NamedTuple
from unittest import mock

import torch

from debubble.accelerator import Accelerator
from debubble.contract.source_line import SourceLine, source_line

from .diagnosis import Diagnosis

MAKERS: dict[Any, tuple[str, ...]] = {
    torch: (
        "arange", "empty", "empty_like", "empty_strided", "full", "full_like", "linspace", "ones",
        "ones_like", "rand", "randint", "randn", "tensor", "zeros", "zeros_like",
    ),
    torch.Tensor: ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "pin_memory"),
}  # fmt: skip
"""The names of the functions and methods that make pinned memory, by their owner: all take
`pin_memory=True`, except the method `pin_memory` itself."""
WHY = (
    "Memory can't be pinned on every platform, and where it can't be, `pin_memory=True` is an "
    "error. `debubble.accelerator.current().pin_memory` says whether it can: pass it on, as "
    "`pin_memory=current().pin_memory`. Uploads then wait there, and still arrive."
)


class Pinned(NamedTuple):
    """One allocation of pinned memory, and the line that made it."""

    nbytes: int
    source: SourceLine | None


@contextmanager
def pinned_memory() -> Iterator[list[Pinned]]:
    """Yields a list that gets an entry for each allocation of pinned memory in the block."""
    pinned: list[Pinned] = []

    def note(make: Callable[[], torch.Tensor]) -> torch.Tensor:
        tensor = make()
        pinned.append(Pinned(tensor.nbytes, source_line()))
        return tensor

    with _instead_of_pinning(note):
        yield pinned


@contextmanager
def no_pinned_memory(accelerator: Accelerator) -> Iterator[None]:
    """Simulates a platform that can't pin: `accelerator.pin_memory` is False in the block, and code
    that pins memory all the same gets a KataFailure."""

    def refuse(make: Callable[[], torch.Tensor]) -> torch.Tensor:
        line = source_line()
        raise Diagnosis(
            expected="no memory to be pinned where `accelerator.pin_memory` is False",
            did="asked for pinned memory all the same",
            lines=((line, 1),) if line else (),
            why=WHY,
        ).failure()

    with mock.patch.object(accelerator, "pin_memory", False), _instead_of_pinning(refuse):
        yield


@contextmanager
def _instead_of_pinning(
    do: Callable[[Callable[[], torch.Tensor]], torch.Tensor],
) -> Iterator[None]:
    """Calls `do(make)` in the block instead of each `make()` that would pin."""
    watching = True

    def watched(name: str, make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        @wraps(make)
        def make_or_do(*args: Any, **kwargs: Any) -> torch.Tensor:
            pins = name == "pin_memory" or kwargs.get("pin_memory")
            # Code that was loaded in the block keeps this function after the block.
            if not (watching and pins):
                return make(*args, **kwargs)
            return do(lambda: make(*args, **kwargs))

        return make_or_do

    with ExitStack() as patches:
        for owner, names in MAKERS.items():
            for name in names:
                make = watched(name, getattr(owner, name))
                patches.enter_context(mock.patch.object(owner, name, make))
        try:
            yield
        finally:
            watching = False
