"""What the device still reads from host memory, or brings there, and what the host does to it.

Pinned memory that a copy or a kernel reads is looked at again when that is done in modelled time.
If its bytes changed meanwhile, the device took the new bytes: everything queued behind it is run
again with them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import torch

from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Hazard

from . import pinning
from .arrivals import Arrivals, Download, Overlay
from .pieces import Pieces, span_of
from .tape import Step, Tape, poison, redo


@dataclass(slots=True, eq=False, weakref_slot=True)
class Upload:
    host: Pieces
    tape: Tape
    """Where what is queued behind it begins."""
    sent: np.ndarray
    """uint8 [nbytes of host]: what the device has to read; where the host overwrites its memory in
    time, that. Up to date once it was read."""
    source: SourceLine | None
    what: str = "copy"
    left: np.ndarray | None = None
    """What the work leaves in the memory, where that is something else than it read."""
    overlays: list[Overlay] = field(default_factory=list)
    """What of it was still on its way to the host when this was asked for."""
    is_done: bool = False

    def read(self) -> np.ndarray:
        """`sent`, with what was on its way; when all is run again, that may be something else."""
        for overlay in self.overlays:
            overlay.put(self.sent)
        return self.sent


class InFlight:
    """Work under way on host memory, and tapes of what was queued since the oldest upload."""

    def __init__(self) -> None:
        self.uploads: set[Upload] = set()
        self.downloads = Arrivals()
        self._tapes = [Tape()]
        self.next_done_at = float("inf")
        self._queue: list[tuple[float, int, Upload | Download]] = []
        self._count = 0
        self._host_writes: dict[tuple[int, int], SourceLine] = {}
        """The lines that last wrote to a range of addresses, the latest one last."""

    @property
    def tape(self) -> Tape:
        """For one more step. A long one is followed by another, so that it can be dropped even if
        something is always under way."""
        if len(self._tapes[-1].steps) >= LONGEST_TAPE:
            self._tapes.append(Tape())
        return self._tapes[-1]

    def will_overwrite(self, data: torch.Tensor) -> None:
        """Must be called before a step writes to all of `data`. Its old bytes are kept, unless it
        is a whole allocation and no step came before: then nothing reads them again."""
        storage = data.untyped_storage()
        is_first = len(self._tapes) == 1 and not self._tapes[0].steps
        if is_first and data.is_contiguous() and data.nbytes == storage.nbytes():
            self.tape.made.add(storage.data_ptr())
        else:
            self.tape.will_write([data])

    def upload(self, host: Pieces, source: SourceLine | None, what: str = "copy") -> Upload:
        """Begins one; `ends_at` says until when it goes on."""
        sent, overlays = self.seen_by_device(host)
        upload = Upload(host, self.tape, sent, source, what, overlays=overlays)
        if len(host):
            self.uploads.add(upload)
            upload.tape.num_uploads += 1
        return upload

    def give_up(self, upload: Upload) -> None:
        """It was begun, and nothing is under way for it any more."""
        if upload in self.uploads:
            self.uploads.remove(upload)
            upload.tape.num_uploads -= 1

    def download(self, host: Pieces, result: np.ndarray, source: SourceLine | None) -> Download:
        """Begins one: there is poison in host memory until it is done."""
        download = Download(host, result, source)
        self.downloads.add(download)
        return download

    def download_to(
        self, host: torch.Tensor, result: np.ndarray, source: SourceLine | None
    ) -> Download:
        """The same into a dense tensor, with poison of its type."""
        download = self.download(Pieces.of(host), result, source)
        poison(host)
        return download

    def ends_at(self, work: Upload | Download, done_at: float) -> None:
        self._count += 1
        heapq.heappush(self._queue, (done_at, self._count, work))
        self.next_done_at = self._queue[0][0]

    def seen_by_device(self, host: Pieces) -> tuple[np.ndarray, list[Overlay]]:
        """The bytes that work queued now will find in host memory: what is there, and what is
        still on its way there, to be put over it."""
        return host.gather(), self.downloads.over(host) if self.downloads else []

    def note_host_write(self, tensor: torch.Tensor, source: SourceLine | None) -> None:
        """Remembers the line that last wrote to pinned memory."""
        if source and self.uploads and pinning.is_pinned(tensor):
            span = span_of(tensor)
            self._host_writes.pop(span, None)
            self._host_writes[span] = source

    def reader_of_pending(self, tensor: torch.Tensor) -> Download | None:
        """The download under way whose target shares memory with `tensor`, if there is one."""
        return self.downloads.at(*span_of(tensor))

    def settle(self, now: float) -> list[Hazard]:
        """Finishes what is done by `now`; returns the races that this shows."""
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
        """Takes over what the host wrote meanwhile; that is a race."""
        self.give_up(upload)
        upload.is_done = True
        expected = upload.sent if upload.left is None else upload.left
        if upload.host.hold(expected):
            return []
        found = upload.host.gather()
        for overlay in self.downloads.over(upload.host) if self.downloads else ():
            # Poison, for work that comes later than this.
            where = slice(overlay.start, overlay.start + overlay.nbytes)
            found[where] = expected[where]
        if found.data == expected.data:
            return []
        changed = np.flatnonzero(found != expected)
        upload.sent[changed] = expected[changed] = found[changed]
        upload.overlays.clear()
        return [self._overwritten(upload, changed)]

    def _drop_tapes(self) -> None:
        """Those before the oldest upload."""
        if not self.uploads:
            self._tapes.append(Tape())
            self._host_writes.clear()
        while self._tapes[0].num_uploads == 0 and len(self._tapes) > 1:
            # Steps hold uploads, which hold their tape: the memory of all of them goes back now.
            self._tapes.pop(0).steps.clear()

    def _overwritten(self, upload: Upload, changed: np.ndarray) -> Hazard:
        writer = self._writer_of(upload.host, changed)
        where = f"at {writer}" if writer else "after that line"
        return Hazard(
            "overwritten_in_flight",
            f"the pinned {READ_BY[upload.what]} at {upload.source} was overwritten {where}, while "
            f"the {upload.what} was still under way: the device got the new bytes",
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
"""Steps."""
READ_BY = {"copy": "buffer of the copy", "kernel": "memory read by the kernel"}


def copy_step(target: torch.Tensor, sent: torch.Tensor, upload: Upload) -> Step:
    """`sent` looks at what the upload sends."""

    def call() -> None:
        upload.read()
        target.copy_(sent)

    return Step(call, [], [], upload.source)


def looking_at(flat: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """Bytes of a dense tensor, uint8 [nbytes], as a tensor like it."""
    view = torch.frombuffer(flat, dtype=like.dtype).as_strided(like.shape, like.stride())
    view = view.conj() if like.is_conj() else view
    return torch._neg_view(view) if like.is_neg() else view
