"""Guard bands: run a kernel on memory with a margin, to detect writes outside its arguments."""

from __future__ import annotations

from collections.abc import Callable

import torch

BAND = 4096
"""The size of the guard band on each side of a storage, in bytes."""
UNTOUCHED = 0xFF
"""The byte that fills a band: NaN in every floating point type, -1 in every signed integer type."""
LARGEST = 64 << 20
"""The largest storage that gets bands, in bytes. A second copy of a larger one costs too much."""


def guarded(
    call: Callable[[list[torch.Tensor]], None], tensors: list[torch.Tensor], name: str
) -> set[int]:
    """Calls `call` with copies of `tensors` between guard bands, then copies the changes back.

    Returns the addresses of the storages that `call` left unchanged. Raises RuntimeError, and
    copies nothing back, if `call` wrote to a band. A storage of more than LARGEST bytes isn't
    copied.
    """
    copies: dict[int, _Guarded] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in copies and 0 < storage.nbytes() <= LARGEST:
            copies[storage.data_ptr()] = _Guarded(storage)
    call([_over(copies, tensor) for tensor in tensors])
    for tensor in tensors:
        memory = copies.get(tensor.untyped_storage().data_ptr())
        if memory is not None and memory.is_overrun():
            raise RuntimeError(
                f"{name} wrote outside the memory of its argument of shape {tuple(tensor.shape)}, "
                f"{memory.where()}: mask the store, or check the grid and the strides"
            )
    return {address for address, memory in copies.items() if not memory.take_over()}


class _Guarded:
    """A copy of a storage between two guard bands. NumPy compares bytes, because PyTorch takes ten
    times as long with them."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.size = storage.nbytes()
        self.original = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
        self.before = self.original.clone()
        self.bytes = torch.full((self.size + 2 * BAND,), UNTOUCHED, dtype=torch.uint8, device="cpu")
        self.inside = self.bytes[BAND : BAND + self.size].copy_(self.before)

    def is_overrun(self) -> bool:
        front, back = self._front().numpy(), self._back().numpy()
        return bool((front != UNTOUCHED).any() or (back != UNTOUCHED).any())

    def where(self) -> str:
        front = (self._front() != UNTOUCHED).nonzero().flatten()
        if len(front):
            return f"{BAND - int(front[0])} bytes before its start"
        return f"{int((self._back() != UNTOUCHED).nonzero()[0])} bytes after its end"

    def take_over(self) -> bool:
        """Copies the bytes that changed in the copy back to the original, and returns True if there
        are any. Leaves the other bytes alone, because the kernel may have written to the original
        by address."""
        changed = self.inside.numpy() != self.before.numpy()
        if not changed.any():
            return False
        where = torch.from_numpy(changed)
        self.original[where] = self.inside[where]
        return True

    def _front(self) -> torch.Tensor:
        return self.bytes[:BAND]

    def _back(self) -> torch.Tensor:
        return self.bytes[BAND + self.size :]


def _over(copies: dict[int, _Guarded], tensor: torch.Tensor) -> torch.Tensor:
    """Returns the view of the guarded copy that corresponds to `tensor`, or `tensor` itself if its
    storage has no bands."""
    memory = copies.get(tensor.untyped_storage().data_ptr())
    if memory is None:
        return tensor
    offset = tensor.storage_offset() + BAND // tensor.element_size()
    like = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return like.set_(memory.bytes.untyped_storage(), offset, tensor.shape, tensor.stride())
