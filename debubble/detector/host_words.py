"""The words for work of the host during which the device may be idle, and the advice."""

from __future__ import annotations

from ..timeline.holds import HoldKind, HostKind

HOST_WORDS: dict[HoldKind | HostKind, tuple[str, str, str]] = {
    "compile": (
        "a compilation",
        "Triton or torch.compile makes a kernel for a new key: a type, a size, an integer that is "
        "1, or one that is a multiple of 16 where none was before, or the other way round.",
        "call it with this key before the first request, or make the key the same: name the "
        "argument in do_not_specialize, pad the size to a bucket, pass dynamic=True",
    ),
    "alloc": (
        "device memory",
        "PyTorch found no free piece that is large enough, and asked the driver for a segment.",
        "allocate the largest size once, before the steps, and write into it",
    ),
    "pinned_alloc": (
        "pinned memory",
        "PyTorch asked the driver to page-lock memory, because no freed block has the size.",
        "pin one buffer of the largest size before the steps, and fill it in each step",
    ),
    "python": (
        "your Python",
        "the program's own code runs between two calls, and the device has no work meanwhile.",
        "compute it once, as arrays, or a step ahead while the device works",
    ),
    "python_waits": (
        "your Python, which waits",
        "the program sleeps, or waits for a file, a queue or a lock, and the device has no work.",
        "wait in another thread, one step ahead",
    ),
    "launches": (
        "launches",
        "kernels are shorter than what the host takes to launch them.",
        "launch fewer: fuse operators, use torch._foreach_ functions or torch.compile, or capture "
        "the step in a graph",
    ),
    "full_queue": (
        "a full launch queue",
        "the host is 1,024 launches ahead of the device, and waits until the oldest one starts. "
        "The device has work all the time.",
        "nothing: the host is far enough ahead. What it does after this line comes late",
    ),
}
"""The words of each kind, as `WORDS` has them, and the advice."""
