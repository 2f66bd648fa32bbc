"""Captures a size when a step first needs it, with as many rows as that step has.

fails: test_steps_of_different_sizes_follow_each_other
fails: test_the_smallest_graph_that_holds_a_step_runs_it
says: its shape is [1, 2] and not [4, 2]
says: Capture as many rows as the size says
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
        self.rows = torch.tensor([PADDING] * self.sizes[-1], dtype=torch.int64, device=device)
        self.captured = {}

    def step(self, rows):
        num_tokens = len(rows)
        size = next((size for size in self.sizes if size >= num_tokens), None)
        if size is None:
            return self.forward(rows.to(self.device))
        self.rows[:size].copy_(self._pinned(rows, size), non_blocking=True)
        if size not in self.captured:
            self.captured[size] = self._capture(self.rows[:num_tokens])
        captured = self.captured[size]
        captured.graph.replay()
        return captured.output[:num_tokens]

    def _capture(self, rows):
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
