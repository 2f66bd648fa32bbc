"""The keys under which `torch.compile` stores compiled functions: what makes it compile again.

A compiled function is guarded by each tensor's type and shape and by each Python value that it was
called with. A size that changes once becomes a symbol, unless it is 0 or 1: so the second size
compiles again, and a third does not. `dynamic=True` makes all sizes symbols from the first call on,
and `dynamic=False` none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import torch

from ..contract.compiles import Key, changes

SYMBOL = "any size"
NEVER_A_SYMBOL = (0, 1)


class Guards:
    """The guards of one compiled function, by the arguments of its calls."""

    def __init__(self, function: object, dynamic: bool | None = None) -> None:
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._dynamic = dynamic
        self._symbols: set[str] = set()

    def key_of(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        names: Sequence[str],
        known: Collection[Key],
    ) -> Key:
        """Returns the key of a call. `known` are the keys that the function was compiled with: a
        size that differs from the nearest of them becomes a symbol."""
        parts = tuple(_parts(args, kwargs, names))
        key = self._with_symbols(parts)
        if self._dynamic is None and known and key not in known:
            nearest = min(known, key=lambda old: len(changes(old, key)))
            old, new = dict(nearest), dict(key)
            self._symbols.update(
                name for name in new if _may_vary(name, old.get(name)) and old[name] != new[name]
            )
            key = self._with_symbols(parts)
        return key

    def _with_symbols(self, parts: Key) -> Key:
        return tuple(
            (name, SYMBOL if self._is_symbol(name, value) else value) for name, value in parts
        )

    def _is_symbol(self, name: str, value: str) -> bool:
        if not _may_vary(name, value):
            return False
        return self._dynamic is True or name in self._symbols


def _may_vary(name: str, value: str | None) -> bool:
    """Returns True for a part of a key that is a number which may become a symbol."""
    number = (value or "").removeprefix("-")
    return number.isdigit() and int(number) not in NEVER_A_SYMBOL


def _parts(
    args: Sequence[object], kwargs: Mapping[str, object], names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    named = [names[i] if i < len(names) else f"argument {i}" for i in range(len(args))]
    for name, value in (*zip(named, args, strict=True), *kwargs.items()):
        yield from _parts_of(name, value)
    yield "gradients", "on" if torch.is_grad_enabled() else "off"


def _parts_of(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, torch.Tensor):
        yield name, f"{str(value.dtype).removeprefix('torch.')} on {value.device.type}"
        yield f"{name}.dim()", f"{value.dim()} dimensions"
        yield f"{name}.requires_grad", str(value.requires_grad)
        for place, size in enumerate(value.shape):
            yield f"{name}.shape[{place}]", str(size)
    elif isinstance(value, (list, tuple)):
        yield f"len({name})", f"{len(value)} elements"
        for place, one in enumerate(value):
            yield from _parts_of(f"{name}[{place}]", one)
    elif isinstance(value, dict):
        yield f"len({name})", f"{len(value)} entries"
        for key, one in value.items():
            yield from _parts_of(f"{name}[{key!r}]", one)
    elif isinstance(value, (bool, int, str, type(None), torch.dtype)):
        yield name, repr(value)
    elif isinstance(value, float):
        yield name, "a float"
    else:
        yield name, f"a {type(value).__name__}"
