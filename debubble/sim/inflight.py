"""Copies between host and device that are still under way, and what the host does to them.

A host buffer is looked at again when its copy is done in modelled time. If its bytes changed
meanwhile, the copy took the new bytes: everything queued behind it is run again with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..timeline.event import Hazard, SourceLine
from .tape import Step, Tape, poison


@dataclass(slots=True)
class Upload:
    host: torch.Tensor
    sent: torch.Tensor
    """What the buffer held when the copy was asked for; replaced if the host changes it in time."""
    done_at: float
    source: SourceLine | None


@dataclass(slots=True)
class Download:
    host: torch.Tensor
    result: torch.Tensor
    done_at: float
    source: SourceLine | None


class InFlight:
    """The copies under way, oldest first, and the tape of what was queued since the oldest."""

    def __init__(self) -> None:
        self.uploads: list[Upload] = []
        self.downloads: list[Download] = []
        self.tape = Tape()
        self.next_done_at = float("inf")
        self._host_writes: dict[int, SourceLine] = {}

    def upload(self, host: torch.Tensor, done_at: float, source: SourceLine | None) -> Upload:
        """Returns the copy, whose `sent` is what the device has to read."""
        upload = Upload(host, host.clone(), done_at, source)
        self.uploads.append(upload)
        self.next_done_at = min(self.next_done_at, done_at)
        return upload

    def download(
        self, host: torch.Tensor, result: torch.Tensor, done_at: float, source: SourceLine | None
    ) -> None:
        """The host's buffer holds poison until the copy is done."""
        self.downloads.append(Download(host, result, done_at, source))
        self.next_done_at = min(self.next_done_at, done_at)
        poison(host)

    def note_host_write(self, tensor: torch.Tensor, source: SourceLine | None) -> None:
        """Remembers the line that last wrote to a buffer with a copy under way."""
        address = tensor.untyped_storage().data_ptr()
        if source and any(u.host.untyped_storage().data_ptr() == address for u in self.uploads):
            self._host_writes[address] = source

    def reader_of_pending(self, tensor: torch.Tensor) -> Download | None:
        """The copy under way whose target shares memory with `tensor`, if there is one."""
        for download in self.downloads:
            if _overlap(download.host, tensor):
                return download
        return None

    def settle(self, now: float) -> list[Hazard]:
        """Finishes the copies that are done by `now`; returns the races that this shows."""
        if now < self.next_done_at:
            return []
        hazards = [self._overwritten(u) for u in self.uploads if u.done_at <= now and _changed(u)]
        if hazards:
            self.tape.redo()
        self.uploads = [upload for upload in self.uploads if upload.done_at > now]
        for download in self.downloads:
            if download.done_at <= now:
                download.host.copy_(download.result)
        self.downloads = [download for download in self.downloads if download.done_at > now]
        if not self.uploads:
            self.tape = Tape()
            self._host_writes.clear()
        waiting = self.uploads + self.downloads
        self.next_done_at = min((copy.done_at for copy in waiting), default=float("inf"))
        return hazards

    def _overwritten(self, upload: Upload) -> Hazard:
        upload.sent.copy_(upload.host)
        writer = self._host_writes.get(upload.host.untyped_storage().data_ptr())
        where = f"at {writer}" if writer else "after that line"
        return Hazard(
            "overwritten_in_flight",
            f"the pinned buffer of the copy at {upload.source} was overwritten {where}, while the "
            "copy was still under way: the device got the new bytes",
            upload.source,
            writer,
        )


def copy_step(target: torch.Tensor, upload: Upload) -> Step:
    return Step(lambda: target.copy_(upload.sent), [], [], upload.source)


def _changed(upload: Upload) -> bool:
    return not _same_bytes(upload.host, upload.sent)


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """NaN equals itself here: it is the bytes that count."""
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    start_a, start_b = a.data_ptr(), b.data_ptr()
    return start_a < start_b + _span(b) and start_b < start_a + _span(a)


def _span(tensor: torch.Tensor) -> int:
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
