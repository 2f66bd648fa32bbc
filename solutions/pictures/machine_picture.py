"""Draws a host, its queues and a GPU: the parts that chapter 00 names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .sheet import BAR, FAINT, INK, POINT, SEQUENCE_COLOURS, Sheet, ink_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 760, 306
HOST, QUEUES, DEVICE = (16, 176), (216, 524), (564, 744)
"""Left and right edges of the three columns."""
TOP, BOTTOM = 44, 250
STREAMS = {"stream 0": 96, "stream 1": 158}
"""The top of each stream's row."""
LAUNCH, KERNEL, COPY = SEQUENCE_COLOURS[3], SEQUENCE_COLOURS[0], SEQUENCE_COLOURS[2]
PALE = 0.12
CAPTION = (
    "Host sync: the host waits until a queue is empty.",
    "Bubble: the queue is empty and the GPU waits.",
)


@dataclass(frozen=True)
class MachinePicture:
    """A picture of a Python program, a GPU, and the queues between them."""

    @property
    def text(self) -> str:
        return (
            "The host, a Python thread on the CPU, launches kernels and copies into two queues, "
            "stream 0 and stream 1. The GPU takes from the front of each queue: its processors "
            "run the kernels, its copy engine moves bytes between CPU memory and GPU memory. A "
            "host sync is the host waiting until a queue is empty."
        )

    @property
    def figure(self) -> Figure:
        sheet = Sheet(WIDTH, HEIGHT, self.text)
        for name, (left, right) in {
            "host (CPU)": HOST,
            "queues, one a stream": QUEUES,
            "GPU (device)": DEVICE,
        }.items():
            self._panel(sheet, left, right)
            sheet.label((left + right) / 2, TOP - 12, name, bold=True)
        self._draw_host(sheet)
        self._draw_queues(sheet)
        self._draw_device(sheet)
        for line, words in enumerate(CAPTION):
            sheet.label(HOST[0], BOTTOM + 24 + 20 * line, words, "left", colour=FAINT)
        return sheet.figure

    def _panel(self, sheet: Sheet, left: float, right: float) -> None:
        xs, ys = [left, right, right, left], [TOP, TOP, BOTTOM, BOTTOM]
        sheet.axes.fill(xs, ys, color=FAINT, alpha=PALE, linewidth=0)

    def _draw_host(self, sheet: Sheet) -> None:
        left, right = HOST
        middle = (left + right) / 2
        sheet.label(middle, TOP + 26, "your Python thread")
        for words, top in (("launch a kernel", 96), ("launch a copy", 158)):
            sheet.boxes([left + 14], right - left - 28, top, [LAUNCH])
            sheet.label(middle, top + 15, words, colour=ink_on(LAUNCH))
            self._arrow(sheet, right - 12, QUEUES[0] + 6, top + BAR / 2)
        sheet.label(middle, BOTTOM - 34, "CPU memory:", colour=FAINT)
        sheet.label(middle, BOTTOM - 16, "pageable, pinned", colour=FAINT)

    def _draw_queues(self, sheet: Sheet) -> None:
        left, right = QUEUES
        waiting = {
            "stream 0": [("kernel", KERNEL)] * 3,
            "stream 1": [("copy", COPY)] * 2,
        }
        for name, top in STREAMS.items():
            sheet.label(left + 12, top - 8, name, "left", bold=True)
            lefts = [right - 14 - 84 * (place + 1) for place in range(len(waiting[name]))]
            words, colours = zip(*waiting[name], strict=True)
            sheet.boxes(lefts, 80, top, colours, words)
            self._arrow(sheet, right - 10, DEVICE[0] + 12, top + BAR / 2)
        sheet.label((left + right) / 2, BOTTOM - 34, "first in, first out;", colour=FAINT)
        sheet.label((left + right) / 2, BOTTOM - 16, "two streams run side by side", colour=FAINT)

    def _draw_device(self, sheet: Sheet) -> None:
        left, right = DEVICE
        middle = (left + right) / 2
        for words, top, colour in (
            ("processors: run kernels", STREAMS["stream 0"], KERNEL),
            ("copy engine: moves bytes", STREAMS["stream 1"], COPY),
        ):
            sheet.boxes([left + 8], right - left - 16, top, [colour])
            sheet.label(middle, top + 15, words, colour=ink_on(colour), size=11)
        sheet.label(middle, BOTTOM - 16, "GPU memory", colour=FAINT)

    def _arrow(self, sheet: Sheet, start: float, end: float, height: float) -> None:
        style = {"arrowstyle": "->", "color": INK, "linewidth": 1.5 * POINT}
        sheet.axes.annotate("", (end, height), (start, height), arrowprops=style)
