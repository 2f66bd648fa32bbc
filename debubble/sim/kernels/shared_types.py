"""Triton's interpreter makes a type and a shape for each value; equal ones share them here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any


@cache
def share_types() -> None:
    """Makes block types with the same elements and sizes share what is worked out about them, and
    tensors of one shape share that shape, and leaves equal shapes unbroadcast. Otherwise a fifth of
    an interpreted kernel's time goes into it."""
    import triton.language as tl
    from triton.language.semantic import TritonSemantic

    tl.block_type.__init__ = _of_block_type(tl.block_type.__init__, tl.constexpr)
    tl.tensor.__init__ = _of_tensor(tl.tensor.__init__)
    semantic: Any = TritonSemantic
    semantic.broadcast_impl_value = _of_unequal_shapes(semantic.broadcast_impl_value)


def _of_block_type(make: Callable[..., None], constexpr: Any) -> Callable[..., None]:
    known: dict[tuple[object, ...], dict[str, Any]] = {}

    @wraps(make)
    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = [size.value if isinstance(size, constexpr) else size for size in shape]
        about = known.get(key := (element_ty.name, *sizes))
        if about is None:
            make(self, element_ty, shape)
            known[key] = {**vars(self)}
        else:
            vars(self).update(about)
        self.element_ty = element_ty

    return init


def _of_tensor(make: Callable[..., None]) -> Callable[..., None]:
    known: dict[str, dict[str, Any]] = {}

    @wraps(make)
    def init(self: Any, handle: Any, type: Any) -> None:
        kind = type.name if type.is_block() else ""
        about = known.get(kind)
        if about is None:
            make(self, handle, type)
            own = ("handle", "type", "dtype")
            known[kind] = {name: each for name, each in vars(self).items() if name not in own}
        else:
            vars(self).update(about, handle=handle, type=type, dtype=type.scalar)

    return init


def _of_unequal_shapes(broadcast: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(broadcast)
    def broadcast_if_unequal(self: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.type, rhs.type
        if one.is_block() and other.is_block():
            is_equal = one.shape.values == other.shape.values
        else:
            is_equal = one.is_block() == other.is_block()
        if is_equal:
            return lhs, rhs
        return broadcast(self, lhs, rhs)

    return broadcast_if_unequal
