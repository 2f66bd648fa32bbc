"""CUDA habits that raise an error on sim, and the code that runs on both."""

from __future__ import annotations

import linecache
import re
import traceback

WORDS = re.compile(r"cuda|nvidia|stream_id|dummy base class|cpu backend", re.IGNORECASE)
"""Matches the messages of PyTorch's errors on a machine without CUDA."""
HABITS = {
    r"torch\.cuda\.(current_stream|default_stream)\(": "`current().current_stream()`",
    r"torch\.cuda\.(stream|set_stream)\(": "`with stream:`, of a `stream = current().stream()`",
    r"torch\.cuda\.Stream\(": "`current().stream()`",
    r"torch\.cuda\.Event\(": "`current().event()`",
    r"torch\.cuda\.synchronize\(": "`current().synchronize()`",
    r"torch\.cuda\.(CUDAGraph|graph)\(": "`graph = current().graph()`, and `with graph.capture():`",
    r"\.cuda\([^)]*non_blocking": "`.to(current().device, non_blocking=True)`",
    r"\.cuda\(": "`.to(current().device)`",
    r"[\"']cuda(:\d+)?[\"']": "`current().device`",
}
"""The code to write instead of each CUDA habit, by a pattern that its source line matches. The
first pattern that matches counts."""


def what_to_write(error: BaseException, frame: traceback.FrameSummary) -> str:
    """Returns a sentence that says what to write instead of CUDA's call in the line that raised
    `error`, or "" if no habit is to blame."""
    if not WORDS.search(str(error)):
        return ""
    first = frame.lineno or 0
    lines = range(first, (frame.end_lineno or first) + 1)
    code = "".join(linecache.getline(frame.filename, number) for number in lines)
    for habit, instead in HABITS.items():
        if re.search(habit, code):
            return (
                f"This accelerator is simulated, and CUDA isn't here. Write {instead}, which runs "
                "on both; `from debubble.accelerator import current` brings `current`."
            )
    return ""
