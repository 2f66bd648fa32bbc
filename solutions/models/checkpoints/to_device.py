"""Copies weights from files to the device through two small pinned buffers: one is read while the
other is copied, and the host never has a whole tensor in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from debubble.accelerator import current

from .folder import DTYPES, Stored

CHUNK = 32 << 20
"""Bytes of each of the two pinned buffers."""


class TensorStream:
    """A reader that copies tensors from files to one device, through two pinned buffers. A file
    stays open while its tensors are read."""

    def __init__(self, device: torch.device, chunk: int = CHUNK) -> None:
        self.device = device
        pin_memory = current().pin_memory
        self._slots = [torch.empty(chunk, dtype=torch.uint8, pin_memory=pin_memory) for _ in "ab"]
        self._copied = [current().event() for _ in self._slots]
        self._next = 0
        self._path: Path | None = None
        self._file = -1
        self.num_bytes = 0
        """Bytes of the tensors that have been read so far."""

    def read(self, stored: Stored) -> torch.Tensor:
        """Returns the tensor on the device, with the dtype and shape that it is stored with. Raises
        ValueError if the file has become shorter."""
        packed = torch.empty(stored.nbytes, dtype=torch.uint8, device=self.device)
        self.read_into(stored, packed)
        return packed.view(DTYPES[stored.dtype]).view(stored.shape)

    def read_into(self, stored: Stored, packed: torch.Tensor) -> None:
        """Copies the tensor's bytes to `packed` [stored.nbytes] uint8, contiguous, on the device.
        Raises ValueError if the file has become shorter."""
        self._open(stored.path)
        done = 0
        while done < stored.nbytes:
            done += self._copy(stored, stored.begin + done, packed[done:])
        self.num_bytes += stored.nbytes

    def _copy(self, stored: Stored, offset: int, packed: torch.Tensor) -> int:
        """Copies bytes of the tensor, from `offset` in its file to the beginning of `packed`: as
        many as a pinned buffer holds. Returns how many. Raises ValueError at the end of the
        file."""
        slot, copied = self._slots[self._next], self._copied[self._next]
        # The last copy from this buffer may still be in flight.
        if not copied.query():
            copied.synchronize()
        wanted = memoryview(slot.numpy().data)[: len(packed)]
        count = os.preadv(self._file, [wanted], offset)
        if not count:
            raise ValueError(
                f"{stored.path.name} ends at byte {offset}, within tensor {stored.name}: it has "
                "become shorter while it was read"
            )
        packed[:count].copy_(slot[:count], non_blocking=True)
        copied.record()
        self._next = (self._next + 1) % len(self._slots)
        return count

    def _open(self, path: Path) -> None:
        if path != self._path:
            self.close()
            self._file, self._path = os.open(path, os.O_RDONLY), path

    def close(self) -> None:
        """Closes the file that is open, if one is."""
        if self._path is not None:
            os.close(self._file)
            self._path = None


@contextmanager
def tensor_stream(device: torch.device) -> Iterator[TensorStream]:
    """Yields a TensorStream to `device`, and closes its file at the end, also after an error."""
    stream = TensorStream(device)
    try:
        yield stream
    finally:
        stream.close()


def same_bytes(one: Stored, other: Stored) -> bool:
    """Returns True if two tensors of files hold the same bytes. The host reads both, a chunk at a
    time."""
    if one.nbytes != other.nbytes:
        return False
    with one.path.open("rb") as first, other.path.open("rb") as second:
        first.seek(one.begin)
        second.seek(other.begin)
        sizes = (min(CHUNK, one.nbytes - done) for done in range(0, one.nbytes, CHUNK))
        return all(first.read(size) == second.read(size) for size in sizes)
