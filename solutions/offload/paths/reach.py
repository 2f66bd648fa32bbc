"""Looks up the memory of addresses before a kernel or a copy engine gets them.

A kernel that reads pageable memory takes the whole CUDA context with it, and a copy to an address
outside of any memory the whole process.
"""

from __future__ import annotations

import numpy as np

from debubble.accelerator import Accelerator

from .descriptors import Descriptors

UNKNOWN, PINNED, DEVICE, CUT_OFF = range(4)
"""Kinds of memory that the source or the target of a piece is in: pageable or unknown memory,
pinned memory, device memory, or CUT_OFF if it runs past the end of an allocation."""
OF_PLACE = {"pinned": PINNED, "device": DEVICE}

Places = np.ndarray
"""The kind of memory that each piece's source or target is in, int64 [N]: UNKNOWN, PINNED, DEVICE
or CUT_OFF. A piece of no bytes counts as DEVICE."""


def check_reach(accelerator: Accelerator, descriptors: Descriptors) -> None:
    """Raises ValueError, naming the descriptor, unless a kernel can reach all sources and targets:
    in device memory or in pinned host memory, each within one allocation."""
    for side, places in _both_sides(accelerator, descriptors).items():
        _refuse(descriptors, side, places == CUT_OFF, "runs past the end of its memory")
        _refuse(
            descriptors,
            side,
            places == UNKNOWN,
            "is in pageable host memory, or unmapped: a kernel needs device or pinned memory",
        )


def check_copy(accelerator: Accelerator, descriptors: Descriptors) -> bool:
    """True if all pieces with bytes go from the host to the device.

    Raises ValueError, naming the descriptor, unless the copy engine can copy them: one side must be
    in device memory. The other side may be pageable host memory, which can't be told from no memory
    at all.
    """
    sides = _both_sides(accelerator, descriptors)
    for side, places in sides.items():
        _refuse(descriptors, side, places == CUT_OFF, "runs past the end of its memory")
    from_device, to_device = (places == DEVICE for places in sides.values())
    moves_bytes = descriptors.sizes > 0
    _refuse(
        descriptors,
        "target",
        moves_bytes & ~from_device & ~to_device,
        "is not in device memory, and neither is its source",
    )
    return bool((to_device & ~from_device | ~moves_bytes).all())


def _both_sides(accelerator: Accelerator, descriptors: Descriptors) -> dict[str, Places]:
    return {
        "source": _places(accelerator, descriptors.sources, descriptors.sizes),
        "target": _places(accelerator, descriptors.targets, descriptors.sizes),
    }


def _places(accelerator: Accelerator, addresses: np.ndarray, sizes: np.ndarray) -> Places:
    holds_bytes = sizes > 0
    ranges = _ranges(accelerator, np.sort(addresses[holds_bytes]))
    if not ranges:
        return np.full(len(sizes), DEVICE)
    starts, ends, places = np.array(ranges).T
    inside = np.searchsorted(starts, addresses, side="right") - 1
    place = places[inside]
    is_cut_off = (sizes > ends[inside] - addresses) & (place != UNKNOWN)
    return np.where(holds_bytes, np.where(is_cut_off, CUT_OFF, place), DEVICE)


def _ranges(accelerator: Accelerator, ascending: np.ndarray) -> list[tuple[int, int, int]]:
    """Returns (start, end, place) of each allocation that contains some of the addresses, which are
    in ascending order. Each allocation is looked up once, however many addresses are in it."""
    ranges, done = [], 0
    while done < len(ascending):
        address = int(ascending[done])
        memory = accelerator.memory_at(address)
        if memory is None:
            ranges.append((address, address + 1, UNKNOWN))
        else:
            ranges.append((memory.start, memory.start + memory.nbytes, OF_PLACE[memory.place]))
        done = int(np.searchsorted(ascending, ranges[-1][1]))
    return ranges


def _refuse(descriptors: Descriptors, side: str, is_bad: np.ndarray, problem: str) -> None:
    if is_bad.any():
        raise ValueError(f"{descriptors.described(int(is_bad.argmax()), side)} {problem}")
