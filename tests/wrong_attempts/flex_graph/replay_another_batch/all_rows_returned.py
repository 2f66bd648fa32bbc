"""Returns what the graph has computed, padding and all.

fails: test_a_step_computes_its_own_rows
fails: test_steps_of_different_sizes_follow_each_other
says: Whoever asked knows of no padding
"""

from collections import namedtuple

import torch

from debubble.accelerator import current

PADDING = (0, 0, -1)
Captured = namedtuple("Captured", "graph rows output")


class CapturedForward:
    def __init__(self, forward, sizes, device):
        self.forward, self.device = forward, device
        self.sizes = sorted(set(sizes))
        self.captured = {size: self._capture(size) for size in reversed(self.sizes)}

    def step(self, rows):
        num_tokens = len(rows)
        size = next((size for size in self.sizes if size >= num_tokens), None)
        if size is None:
            return self.forward(rows.to(self.device))
        captured = self.captured[size]
        captured.rows.copy_(self._pinned(rows, size), non_blocking=True)
        captured.graph.replay()
        return captured.output

    def _capture(self, size):
        rows = torch.tensor([PADDING] * size, dtype=torch.int64, device=self.device)
        self.forward(rows)
        graph = current().graph()
        with graph.capture():
            output = self.forward(rows)
        return Captured(graph, rows, output)

    def _pinned(self, rows, size):
        padded = [PADDING] * size
        pinned = torch.tensor(padded, dtype=torch.int64, pin_memory=current().pin_memory)
        pinned[: len(rows)] = rows
        return pinned
