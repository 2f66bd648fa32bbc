"""Random numbers for sim: drawn on the CPU, by generators that report sim as their device."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from debubble.private.torch import cdata

from ...tensor import CALLED, said_device

_OfPyTorch = torch.Generator


class _EveryGenerator(type(_OfPyTorch)):  # type: ignore[misc]  # a class known only at run time
    """A metaclass for which PyTorch's own generators are instances of sim's `Generator` too, as
    existing code expects."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _OfPyTorch)


class Generator(_OfPyTorch, metaclass=_EveryGenerator):
    """A `torch.Generator` that also takes "sim" as its device."""

    _on_sim: bool

    def __new__(cls, device: Any = "cpu") -> Generator:
        on_sim = torch.device(device).type in CALLED
        generator = super().__new__(cls, "cpu" if on_sim else device)  # type: ignore[call-arg]  # not in PyTorch's types
        generator._on_sim = on_sim
        if on_sim:
            _on_sim.add(cdata(generator))
            weakref.finalize(generator, _on_sim.discard, cdata(generator))
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # PyTorch's is read-only too
        return said_device() if self._on_sim else super().device

    def clone_state(self) -> torch.Generator:
        """Returns a new generator on the same device with the same state: both draw the same
        numbers from now on."""
        if not self._on_sim:
            return super().clone_state()
        clone = Generator(self.device)
        clone.set_state(self.get_state())
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the generator with its device. PyTorch's own method would say "cpu" for sim."""
        make, _, state = super().__reduce__()
        return make, (self.device,), state


_on_sim: set[int] = set()
"""The addresses (`_cdata`) of the C++ generators that belong to generators on sim."""


def is_on_sim(generator: Any) -> bool:
    """Returns True if a generator is sim's, even for another Python object of the same C++
    generator, such as operators get."""
    return cdata(generator) in _on_sim


def install() -> None:
    """Replaces `torch.Generator` by sim's. PyTorch's own class gets a device's generator from a C++
    hook, which a backend written in Python can't offer."""
    torch.Generator = Generator  # type: ignore[misc]  # code asks for the class by this name
