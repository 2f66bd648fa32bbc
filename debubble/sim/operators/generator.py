"""Random numbers for sim: drawn on the CPU, by generators that say they are sim's."""

from __future__ import annotations

from typing import Any

import torch

_OfPyTorch = torch.Generator


class _EveryGenerator(type(_OfPyTorch)):  # type: ignore[misc]  # a class known only at run time
    """PyTorch's own generators are instances too, as code that asks for the class expects."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _OfPyTorch)


class Generator(_OfPyTorch, metaclass=_EveryGenerator):
    """`torch.Generator`, which also takes "sim" for its device."""

    _on_sim: bool

    def __new__(cls, device: Any = "cpu") -> Generator:
        on_sim = torch.device(device).type == "sim"
        generator = super().__new__(cls, "cpu" if on_sim else device)  # type: ignore[call-arg]  # not in PyTorch's types
        generator._on_sim = on_sim
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # nobody sets PyTorch's either
        return torch.device("sim", 0) if self._on_sim else super().device


def install() -> None:
    """PyTorch asks a C++ hook for a generator, which a backend written in Python can't offer."""
    torch.Generator = Generator  # type: ignore[misc]  # code asks for the class by this name
