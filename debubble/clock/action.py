"""The actions of an operator on the device: kernels, copies and host waits, in order."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..timeline.event import CopyKind


class Action(NamedTuple):
    """One kernel, copy, memset or host wait of an operator."""

    kind: Literal["kernel", "copy", "memset", "sync"]
    name: str
    nbytes: float = 0
    """The bytes that a kernel reads and writes, or that a copy moves."""
    flops: float = 0.0
    unit: Literal["vector", "library", "triton", "sleep"] = "vector"
    """The kind of kernel: "vector" is PyTorch's own, "library" a library's matrix product, "triton"
    a Triton kernel. A "sleep" has its microseconds as `flops`."""
    tensor_cores: bool = True
    """True if a matrix product runs on tensor cores: in half precision it does, in fp32 it
    doesn't."""
    copy_kind: CopyKind | None = None
    host_blocks: bool = False
    """True if the driver holds the host until the copy is done, without a synchronisation call."""
    pageable: bool = False
    """True if a copy's host memory is pageable."""
    pieces: tuple[int, int] = (0, 0)
    """The numbers of small and of large copies in one batch call; the cost model's
    `batch_cliff_bytes` divides them."""
    link_bytes: float = 0
    """The bytes that a kernel reads from pinned host memory, or writes to it: the larger of the
    two."""
    microseconds: float | None = None
    """The device time of a kernel, or of a copy on the device, as it was measured for this
    configuration. None if it was not: then the cost model estimates it."""


TAKEN_OVER_AT_ONCE = 2 << 20
"""The largest pageable upload, in bytes, that the driver copies into memory of its own during the
call; for a larger one the host waits for the stream. Measured on an H200 and an H100: the host
returns from 2048 KiB, and waits for 2080 KiB."""
SYNC = Action("sync", "stream synchronize")


def kernel(name: str, nbytes: float = 0) -> Action:
    return Action("kernel", name, nbytes)


def copy(
    copy_kind: CopyKind, nbytes: float, host_blocks: bool = False, pageable: bool = False
) -> Action:
    return Action(
        "copy",
        copy_kind,
        nbytes,
        copy_kind=copy_kind,
        host_blocks=host_blocks,
        pageable=pageable or copy_kind == "h2d_pageable",
    )


def is_taken_over(kind: CopyKind | None, nbytes: float) -> bool:
    """Returns True for an upload from pageable memory that is at most 2 MiB: the driver's call
    copies the bytes into memory of its own, for the copy engine, and doesn't wait for the
    stream."""
    return kind == "h2d_pageable" and nbytes <= TAKEN_OVER_AT_ONCE
