"""A tape of device work that can run again, for a graph's replay or after a race."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import torch

from debubble.clock.action import Action
from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Hazard

from .blocks import Block
from .chosen import Chosen
from .illegal_access import IllegalMemoryAccess


class Use(NamedTuple):
    """An access of a step to an allocation, through the CPU tensor `data`: to all of its elements
    if `whole` is True."""

    block: Block
    data: torch.Tensor
    wrote: bool | None
    """True for a write. None for an access by address, which the step reports itself."""
    whole: bool


@dataclass(slots=True)
class Step:
    """One operation on CPU data that can run again. `call` writes in place, or returns the values
    for `outputs`."""

    call: Callable[[], Any]
    outputs: list[torch.Tensor]
    """The CPU tensors that the operation made, in the order in which `call` returns them."""
    actions: list[Action]
    source: SourceLine | None
    inputs: list[Use] = field(default_factory=list)
    writes: list[torch.Tensor] = field(default_factory=list)
    """The CPU tensors that `call` writes in place."""
    drawn: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    """The tensors that got random numbers in the first run, with copies of those numbers. A second
    draw would differ."""
    chosen: Chosen | None = None
    """The part of one allocation that the operation chooses by an index."""
    under_way: Callable[[float], None] | None = None
    """The function that a replay calls instead of `run`, for work that stays in flight after the
    graph's launch. It takes the time at which the work ends."""

    def run(self) -> None:
        for output, value in zip(self.outputs, flat_tensors(self.call()), strict=False):
            if output.data_ptr() != value.data_ptr():
                output.copy_(value)

    def run_again(self) -> None:
        """Runs the step again with the random numbers of its first run. Ignores an illegal memory
        access, because the race that led to it is reported."""
        if not self.drawn:
            with suppress(IllegalMemoryAccess):
                self.run()
        for tensor, numbers in self.drawn:
            tensor.copy_(numbers)


class Tape:
    """Steps in order, and the bytes that memory from before the tape held when a step first wrote
    to it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.made: set[int] = set()
        """The addresses of the allocations that were made on the tape."""
        self.blank: list[torch.Tensor] = []
        """The CPU data of allocations that no step made: uninitialized memory, to be written to
        later."""
        self.results: list[tuple[ref[Block], torch.Tensor]] = []
        """The allocations that hold a step's result, with their CPU data."""
        self.hazards: list[Hazard] = []
        """The races among the steps of a captured graph."""
        self.num_uploads = 0
        """The number of uploads in flight that began on this tape."""
        self._before: dict[int, Kept] = {}

    def will_write(self, tensors: Iterable[torch.Tensor]) -> None:
        """Saves the bytes of the memory of these tensors, unless it was made on the tape or is
        saved already. Call it before a step writes to them."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address not in self._before and address not in self.made:
                self._before[address] = Kept(storage)

    def make(self, blank: torch.Tensor) -> None:
        """Adds memory that was allocated without a step."""
        self.blank.append(blank)
        self.made.add(blank.untyped_storage().data_ptr())

    def append(self, step: Step) -> None:
        self.steps.append(step)
        self.made.update(output.untyped_storage().data_ptr() for output in step.outputs)

    def undo(self) -> None:
        """Restores the bytes that memory from before the tape held when a step first wrote to
        it."""
        for kept in self._before.values():
            kept.restore()


class Kept:
    """A copy of the bytes of a storage, which `restore` puts back. Pages of a large storage that
    are not in memory yet are left out, because they are zero. A cache as large as a GPU's memory
    consists mostly of such pages."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.everything = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
        self.in_use: torch.Tensor | None = None
        if storage.nbytes() >= LARGE:
            start = -storage.data_ptr() % PAGE
            count = (storage.nbytes() - start) // PAGE
            self.pages = self.everything[start : start + count * PAGE].view(count, PAGE)
            self.ends = [self.everything[:start], self.everything[start + count * PAGE :]]
            self.in_use = pages_in_use(self.pages)
        if self.in_use is None:
            self.ends, self.before = [], self.everything.clone()
        else:
            self.before = self.pages[rows_of(self.in_use)]
        self.before_ends = [end.clone() for end in self.ends]

    def restore(self) -> None:
        for end, before in zip(self.ends, self.before_ends, strict=True):
            end.copy_(before)
        if self.in_use is None:
            self.everything.copy_(self.before)
            return
        now = pages_in_use(self.pages)
        assert now is not None
        self.pages[rows_of(now & ~self.in_use)] = 0
        self.pages[rows_of(self.in_use)] = self.before


LARGE = 64 << 20
"""The size in bytes from which on only the pages of a storage that are in memory are saved."""
PAGE = mmap.PAGESIZE
_IN_USE = np.uint64(3 << 62)
"""The bits in Linux's pagemap that say that a page is in memory or swapped."""


def rows_of(pages: torch.Tensor) -> torch.Tensor:
    """Returns the numbers of the pages for which `pages`, bool [pages], is True. Indexed by the
    mask itself, PyTorch would touch the other pages too."""
    return pages.nonzero().flatten()


def pages_in_use(pages: torch.Tensor) -> torch.Tensor | None:
    """Returns bool [pages]: True for each row of `pages` that is in memory or swapped. Returns None
    if the system doesn't say."""
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(pages.data_ptr() // PAGE * 8)
            found = np.frombuffer(file.read(len(pages) * 8), np.uint64)
    except OSError:
        return None
    return torch.from_numpy((found & _IN_USE) != 0) if len(found) == len(pages) else None


def redo(tapes: Sequence[Tape]) -> None:
    """Runs every step of consecutive tapes again, on the memory as it was before the first tape."""
    for tape in reversed(tapes):
        tape.undo()
    for tape in tapes:
        for step in tape.steps:
            step.run_again()


def flat_tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat_tensors(item)]
    return []


def with_tensors(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Returns `value`, a tensor or nested lists and tuples, with its tensors replaced by `tensors`,
    in the order of `flat_tensors`."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, (list, tuple)):
        return type(value)([with_tensors(item, tensors) for item in value])
    return value


def poison(tensor: torch.Tensor) -> None:
    """Fills a tensor with a value that can't be mistaken for a result: NaN, True or a POISON
    number."""
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(float("nan"))
    elif tensor.dtype == torch.bool:
        tensor.fill_(True)
    else:
        tensor.fill_(POISON[tensor.element_size()])


POISON = {1: 90, 2: 23130, 4: 1515870810, 8: 6510615555426900570}
