"""What to write instead of a line that waits: by what it waits for, and by how the line reads."""

from __future__ import annotations

import re
from typing import NamedTuple

from .holds import HoldKind


class Remedy(NamedTuple):
    kinds: tuple[HoldKind, ...]
    reads: str
    """A regular expression of the line's text."""
    instead: str


UPLOADS: tuple[HoldKind, ...] = ("pageable_upload", "staged_upload")
TO_THE_HOST: tuple[HoldKind, ...] = ("value", "download")
REMEDIES = (
    Remedy(
        UPLOADS,
        r"torch\.(tensor|as_tensor|asarray)\(",
        "torch.tensor(values, pin_memory=True).to(device, non_blocking=True)",
    ),
    Remedy(
        UPLOADS,
        r"\bnew_tensor\(",
        "torch.tensor(values, pin_memory=True).to(x.device, non_blocking=True)",
    ),
    Remedy(
        UPLOADS,
        r"from_numpy\(",
        "copy the array into a pinned tensor that you keep, then .to(device, non_blocking=True)",
    ),
    Remedy(
        UPLOADS,
        r"\]\s*=[^=]",
        "x.index_fill_(0, index, value) or x.masked_fill_(mask, value): the number goes along with "
        "the launch",
    ),
    Remedy(
        UPLOADS,
        r"\.(to|cuda)\(",
        "pin the source once (pin_memory(), DataLoader(pin_memory=True)), and add "
        "non_blocking=True",
    ),
    Remedy(UPLOADS, "", "fill pinned, contiguous memory, and copy it with non_blocking=True"),
    Remedy(("pinned_upload",), "", "add non_blocking=True: the memory is pinned already"),
    Remedy(
        TO_THE_HOST,
        r"repeat_interleave\(",
        "say the length: repeat_interleave(..., output_size=n)",
    ),
    Remedy(TO_THE_HOST, r"\bone_hot\(", "say the number: one_hot(x, num_classes=n)"),
    Remedy(
        TO_THE_HOST,
        r"\b(nonzero|argwhere|masked_select|unique\w*|bincount)\(",
        "a result of a size that is known: nonzero_static, a mask with torch.where, a padded "
        "result with its length on the device",
    ),
    Remedy(
        TO_THE_HOST,
        r"clip_grad_norm_\(.*error_if_nonfinite",
        "without error_if_nonfinite, and look at the norm some steps later",
    ),
    Remedy(
        TO_THE_HOST,
        r"\b(loss|acc|correct|total|metric)\w*.*\.(item|cpu|tolist)\(",
        "add it up on the device (total += loss.detach()), and read it every so many steps",
    ),
    Remedy(
        TO_THE_HOST,
        r"^(if|while|elif|assert)\b|\bbool\(|\bnot\b|\b(any|all)\(\)",
        "torch.where or a mask on the device; to stop, ask about the step before by a pinned copy "
        "behind an event",
    ),
    Remedy(
        TO_THE_HOST,
        r"\b(print|log\w*|f[\"'])",
        "print what a pinned copy brought some steps ago, or every so many steps",
    ),
    Remedy(
        TO_THE_HOST,
        r"\.(cpu|tolist|numpy|item)\(|\.to\(.*cpu",
        "copy into pinned memory with non_blocking=True, record an event, and read it a step later",
    ),
    Remedy(
        TO_THE_HOST,
        r"\[.+\]",
        "index with a tensor of positions, or multiply by the mask: a mask's size is asked for on "
        "the host",
    ),
    Remedy(TO_THE_HOST, "", "keep the value on the device, or know it on the host beforehand"),
    Remedy(
        ("pageable_download",),
        "",
        "copy into pinned memory with non_blocking=True, and read it behind an event",
    ),
    Remedy(
        ("device",),
        "",
        "leave it out, or time with events: torch.cuda.Event(enable_timing=True), read later",
    ),
    Remedy(("stream",), "", "other.wait_stream(stream): it orders the streams without the host"),
    Remedy(("event",), "", "event.query() to ask, event.wait() to order streams"),
    Remedy(("library",), "", "ask the library for a stream, or for a call that doesn't wait"),
)
"""The first one that fits counts."""


def instead_of(kind: HoldKind, line: str) -> str:
    return next(
        remedy.instead
        for remedy in REMEDIES
        if kind in remedy.kinds and re.search(remedy.reads, line)
    )
