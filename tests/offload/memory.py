"""Memory to copy between: random bytes, with guard bytes around every piece of a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from debubble.accelerator import current

GUARD = 32
"""The least number of bytes between two pieces of a source or target."""
ALIGNED = 16

FACTS_SIZES = [8, 4096, 8192, 8200, 16384, 4088] * 8


@dataclass(frozen=True, slots=True)
class Swap:
    """A list of pieces to copy from `source` to `target`, which are flat uint8 tensors, and the
    expected target."""

    source: torch.Tensor
    target: torch.Tensor
    src_addrs: torch.Tensor
    dst_addrs: torch.Tensor
    sizes: torch.Tensor
    """The bytes of each piece, [N] int64 on the CPU like `src_addrs` and `dst_addrs`; pageable,
    unless they were pinned."""
    expected: torch.Tensor
    """The whole target after the copy; bytes between the pieces are unchanged."""
    untouched: torch.Tensor

    @property
    def descriptors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.src_addrs, self.dst_addrs, self.sizes

    @property
    def pinned_descriptors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return tuple(column.pin_memory() for column in self.descriptors)

    @property
    def pool_descriptors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the descriptors as a pool's buffer holds them: pinned, as three rows of one
        table."""
        return torch.stack(self.descriptors).pin_memory().unbind()

    def expect_copied(self) -> None:
        """Waits for the device, and checks all bytes of the target."""
        assert torch.equal(self._held(), self.expected)

    def expect_copied_by(self, call: Callable[..., object], *columns, **options) -> None:
        """Calls with these columns, or else the descriptors, on a stream of its own, and checks all
        bytes of the target."""
        with current().stream():
            call(*(columns or self.descriptors), **options)
        self.expect_copied()

    def expect_untouched(self) -> None:
        assert torch.equal(self._held(), self.untouched)

    def _held(self) -> torch.Tensor:
        current().synchronize()
        return self.target.cpu()


def swap(
    accelerator,
    sizes: Sequence[int],
    *,
    to_device: bool = True,
    pinned: bool = True,
    shift: int = 0,
    guard: int = GUARD,
    ordered: bool = False,
) -> Swap:
    """Returns a Swap whose pieces have these sizes, from host to device memory or back. Source and
    target have the pieces in a random order each, or in the list's order if `ordered`. Pieces begin
    at multiples of 16 bytes, plus `shift`."""
    random = np.random.default_rng(0)
    sizes = np.asarray(sizes, dtype=np.int64).reshape(-1)
    orders = [np.arange(len(sizes)) if ordered else random.permutation(len(sizes)) for _ in "ab"]
    (from_, source_bytes), (to, target_bytes) = (
        _places(sizes, order, guard, shift) for order in orders
    )
    source = random.integers(0, 256, source_bytes, dtype=np.uint8)
    before = random.integers(0, 256, target_bytes, dtype=np.uint8)
    after = before.copy()
    for start, end, size in zip(from_.tolist(), to.tolist(), sizes.tolist(), strict=True):
        after[end : end + size] = source[start : start + size]
    places = ["host", accelerator.device] if to_device else [accelerator.device, "host"]
    source_tensor, target_tensor = (
        _in_memory(torch.from_numpy(values), place, pinned)
        for values, place in zip((source, before), places, strict=True)
    )
    return Swap(
        source_tensor,
        target_tensor,
        torch.from_numpy(source_tensor.data_ptr() + from_),
        torch.from_numpy(target_tensor.data_ptr() + to),
        torch.from_numpy(sizes),
        torch.from_numpy(after),
        torch.from_numpy(before),
    )


def _places(sizes: np.ndarray, order: np.ndarray, guard: int, shift: int) -> tuple[np.ndarray, int]:
    """Returns (where each piece begins, number of bytes that all need together)."""
    slots = -(-(sizes[order] + guard) // ALIGNED) * ALIGNED
    places = np.empty(len(sizes), dtype=np.int64)
    places[order] = np.cumsum(slots) - slots + GUARD + shift
    return places, int(slots.sum()) + 2 * GUARD + shift


def _in_memory(values: torch.Tensor, place, pinned: bool) -> torch.Tensor:
    """Returns a copy of the values on the device `place`, or in host memory if it is "host", pinned
    if `pinned`."""
    if place != "host":
        return values.to(place)
    return values.pin_memory() if pinned else values.clone()
