"""Captures the step's own rows, since a graph reads no others.

fails: test_a_size_is_captured_once
fails: test_a_step_is_one_upload_and_one_launch
fails: test_the_smallest_graph_that_holds_a_step_runs_it
says: a step only writes its rows and replays
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

    def step(self, rows):
        num_tokens = len(rows)
        size = next((size for size in self.sizes if size >= num_tokens), None)
        if size is None:
            return self.forward(rows.to(self.device))
        captured = self._capture(self._pinned(rows, size).to(self.device, non_blocking=True))
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
