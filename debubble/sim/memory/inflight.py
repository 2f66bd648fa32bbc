"""Work in flight on host memory, and the races of host writes with it.

Pinned memory that a copy or a kernel reads is compared again when that work ends in modelled time.
If its bytes have changed meanwhile, the device took the new bytes: all work queued after it runs
again with them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np
import torch

from debubble.contract.source_line import SourceLine
from debubble.private.torch import neg_view
from debubble.timeline.event import Hazard

from . import pinning
from .arrivals import Arrivals, Download, Overlay
from .pieces import Pieces, span_of
from .tape import Step, Tape, poison, redo


@dataclass(slots=True, eq=False, weakref_slot=True)
class Upload:
    host: Pieces
    tape: Tape
    """The tape that has the work queued after this upload."""
    sent: np.ndarray | None
    """The bytes that the device reads, uint8 [nbytes of host], including bytes that the host writes
    there before the upload ends. Up to date after `read`. None while `lender` holds the bytes."""
    source: SourceLine | None
    what: str = "copy"
    left: np.ndarray | None = None
    """The bytes that the kernel leaves in the memory it reads, if it writes there too; otherwise
    None."""
    overlays: list[Overlay] = field(default_factory=list)
    """The bytes that were still in flight to this host memory when the upload was queued."""
    is_done: bool = False
    lender: torch.Tensor | None = None
    """The target of a large copy, which holds the sent bytes until `read` copies them to `sent`: at
    the latest before other work writes to the target."""
    hashes: list[int] | None = None
    """Hashes of the bytes in host memory at the start of a copy with a lender."""

    def read(self) -> np.ndarray:
        """Returns `sent`, with the bytes of the downloads that were in flight to the same memory.
        Work that runs again may have changed those bytes."""
        if self.sent is None:
            assert self.lender is not None
            is_there = self.lender.untyped_storage().nbytes() >= self.host.nbytes
            self.sent = (Pieces.of(self.lender) if is_there else self.host).gather()
            self.lender = None
        for overlay in self.overlays:
            overlay.put(self.sent)
        return self.sent

    def is_unchanged(self) -> bool:
        """Returns True if host memory still holds the bytes that the device read, or left there."""
        if self.hashes is not None:
            return self.host.hashes() == self.hashes
        expected = self.sent if self.left is None else self.left
        return expected is not None and self.host.hold(expected)


class InFlight:
    """The uploads and downloads in flight, and the tapes of all steps queued since the oldest
    upload."""

    def __init__(self) -> None:
        self.uploads: set[Upload] = set()
        self.downloads = Arrivals()
        self._tapes = [Tape()]
        self.next_done_at = float("inf")
        self._queue: list[tuple[float, int, Upload | Download]] = []
        self._count = 0
        self._lent: WeakValueDictionary[int, Upload] = WeakValueDictionary()
        """Large uploads whose sent bytes lie in the memory of their target, by its address."""
        self._host_writes: dict[tuple[int, int], SourceLine] = {}
        """The line that last wrote to each range of pinned addresses, the latest line last."""

    @property
    def tape(self) -> Tape:
        """The tape to which the next step is added. After a full tape it is a new one, so that old
        tapes can be dropped even if some upload is always in flight."""
        if len(self._tapes[-1].steps) >= LONGEST_TAPE:
            self._tapes.append(Tape())
        return self._tapes[-1]

    def will_write(self, tensors: Sequence[torch.Tensor]) -> Tape:
        """Saves the bytes of these CPU tensors of device memory, and returns the tape for the step
        that will write to them. Call it before the step runs."""
        for tensor in tensors if self._lent else ():
            upload = self._lent.pop(tensor.untyped_storage().data_ptr(), None)
            if upload is not None:
                upload.read()
        tape = self.tape
        tape.will_write(tensors)
        return tape

    def copy(self, target: torch.Tensor, host: torch.Tensor, source: SourceLine | None) -> Upload:
        """Copies pinned memory to all of `target`, and returns the upload, which is now in flight.
        Saves the target's old bytes, unless it is a whole allocation and no step came before,
        because then nothing reads them again."""
        storage = target.untyped_storage()
        is_first = len(self._tapes) == 1 and not self._tapes[0].steps
        is_whole = target.is_contiguous() and target.nbytes == storage.nbytes()
        if is_first and is_whole:
            self.tape.made.add(storage.data_ptr())
        else:
            self.will_write([target])
        if is_first and is_whole and _is_large_and_alike(target, host) and not self.downloads:
            upload = self._began(Upload(Pieces.of(host), self.tape, None, source, lender=target))
            target.copy_(host)
            upload.hashes = upload.host.hashes()
            self._lent[storage.data_ptr()] = upload
        else:
            upload = self.upload(Pieces.of(host), source)
            target.copy_(looking_at(upload.read(), host))
        self.tape.append(_copy_step(target, host, upload))
        return upload

    def upload(self, host: Pieces, source: SourceLine | None, what: str = "copy") -> Upload:
        """Starts an upload from pinned memory, for a "copy" or a "kernel" that reads it, and
        returns it. Call `ends_at` to say when it ends."""
        sent, overlays = self.seen_by_device(host)
        return self._began(Upload(host, self.tape, sent, source, what, overlays=overlays))

    def _began(self, upload: Upload) -> Upload:
        if len(upload.host):
            self.uploads.add(upload)
            upload.tape.num_uploads += 1
        return upload

    def give_up(self, upload: Upload) -> None:
        """Removes an upload that is no longer in flight: it has ended, or its kernel has failed."""
        if upload in self.uploads:
            self.uploads.remove(upload)
            upload.tape.num_uploads -= 1

    def download(self, host: Pieces, result: np.ndarray, source: SourceLine | None) -> Download:
        """Starts a download of `result` to host memory, and returns it. Host memory holds poison
        until the download is done."""
        download = Download(host, result, source)
        self.downloads.add(download)
        return download

    def download_to(
        self, host: torch.Tensor, result: np.ndarray, source: SourceLine | None
    ) -> Download:
        """Starts a download into a dense tensor, which holds poison of its dtype until the download
        is done."""
        download = self.download(Pieces.of(host), result, source)
        poison(host)
        return download

    def ends_at(self, work: Upload | Download, done_at: float) -> None:
        self._count += 1
        heapq.heappush(self._queue, (done_at, self._count, work))
        self.next_done_at = self._queue[0][0]

    def seen_by_device(self, host: Pieces) -> tuple[np.ndarray, list[Overlay]]:
        """Returns the bytes that work queued now will find in host memory: the present bytes, and
        overlays for the bytes still in flight."""
        return host.gather(), self.downloads.over(host) if self.downloads else []

    def note_host_write(self, tensor: torch.Tensor, source: SourceLine | None) -> None:
        """Remembers that this line writes to a pinned tensor, if an upload is in flight."""
        if source and self.uploads and pinning.is_pinned(tensor):
            span = span_of(tensor)
            self._host_writes.pop(span, None)
            self._host_writes[span] = source

    def reader_of_pending(self, tensor: torch.Tensor) -> Download | None:
        """Returns the latest download in flight to memory that `tensor` views, or None."""
        return self.downloads.at(*span_of(tensor))

    def settle(self, now: float) -> list[Hazard]:
        """Finishes the uploads and downloads that end by `now`, in microseconds, and returns the
        races found."""
        if now < self.next_done_at:
            return []
        hazards: list[Hazard] = []
        must_redo = False
        while self._queue and self._queue[0][0] <= now:
            work = heapq.heappop(self._queue)[2]
            if isinstance(work, Upload):
                changed = self._finish(work)
                hazards += changed
                must_redo |= bool(changed)
                continue
            if must_redo:
                redo(self._tapes)
            must_redo = False
            self.downloads.finish(work)
        if must_redo:
            redo(self._tapes)
        self._drop_tapes()
        self.next_done_at = self._queue[0][0] if self._queue else float("inf")
        return hazards

    def _finish(self, upload: Upload) -> list[Hazard]:
        """Finishes an upload. If the host has overwritten the memory meanwhile, takes its new bytes
        as those sent, and returns the race in a list."""
        self.give_up(upload)
        upload.is_done = True
        if upload.is_unchanged():
            return []
        sent = upload.read()
        expected = sent if upload.left is None else upload.left
        found = upload.host.gather()
        for overlay in self.downloads.over(upload.host) if self.downloads else ():
            # This is poison of a download queued later, not a write by the host.
            where = slice(overlay.start, overlay.start + overlay.nbytes)
            found[where] = expected[where]
        if found.data == expected.data:
            return []
        changed = np.flatnonzero(found != expected)
        sent[changed] = expected[changed] = found[changed]
        upload.overlays.clear()
        return [self._overwritten(upload, changed)]

    def _drop_tapes(self) -> None:
        """Drops the tapes from before the oldest upload in flight: their steps need not run
        again."""
        if not self.uploads:
            self._tapes.append(Tape())
            self._host_writes.clear()
        while self._tapes[0].num_uploads == 0 and len(self._tapes) > 1:
            # Steps hold uploads, which hold their tape. Breaking this cycle frees them all now.
            self._tapes.pop(0).steps.clear()

    def _overwritten(self, upload: Upload, changed: np.ndarray) -> Hazard:
        writer = self._writer_of(upload.host, changed)
        where = f"at {writer}" if writer else "after that line"
        return Hazard(
            "overwritten_in_flight",
            f"the pinned {READ_BY[upload.what]} at {upload.source} was overwritten {where}, while "
            f"the {upload.what} was still in flight: the device got the new bytes",
            upload.source,
            writer,
        )

    def _writer_of(self, host: Pieces, changed: np.ndarray) -> SourceLine | None:
        piece = np.searchsorted(host.offsets, changed, "right") - 1
        addresses = host.starts[piece] + changed - host.offsets[piece]
        for (start, end), source in reversed(self._host_writes.items()):
            if ((addresses >= start) & (addresses < end)).any():
                return source
        return None


LONGEST_TAPE = 256
"""The number of steps with which a tape is full."""
LENT_FROM = 1 << 20
"""Copies of more than this many bytes, from pinned memory to a whole allocation, leave the sent
bytes in their target."""
READ_BY = {"copy": "buffer of the copy", "kernel": "memory read by the kernel"}


def _is_large_and_alike(target: torch.Tensor, host: torch.Tensor) -> bool:
    """Returns True if a copy moves more than LENT_FROM bytes and changes neither them nor their
    order."""
    is_as_stored = not (host.is_conj() or host.is_neg() or target.is_conj() or target.is_neg())
    is_alike = target.dtype == host.dtype and target.shape == host.shape and host.is_contiguous()
    return is_alike and is_as_stored and host.nbytes > LENT_FROM


def _copy_step(target: torch.Tensor, host: torch.Tensor, upload: Upload) -> Step:
    def call() -> None:
        if upload.lender is None:
            target.copy_(looking_at(upload.read(), host))

    return Step(call, [], [], upload.source)


def looking_at(flat: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """Returns a view of the bytes `flat`, uint8 [nbytes of like], as a tensor with the dtype, shape
    and strides of `like`, which is dense."""
    view = torch.frombuffer(flat, dtype=like.dtype).as_strided(like.shape, like.stride())
    view = view.conj() if like.is_conj() else view
    return neg_view(view) if like.is_neg() else view
