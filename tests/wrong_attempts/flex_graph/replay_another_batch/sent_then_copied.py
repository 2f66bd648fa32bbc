"""Sends the rows to a new tensor, and copies that one to where the graph reads.

fails: test_a_step_is_one_upload_and_one_launch
says: 1 host sync
says: A copy from pageable memory
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
        padded = torch.tensor([PADDING] * size, dtype=torch.int64)
        padded[:num_tokens] = rows
        captured.rows.copy_(padded.to(self.device))
        captured.graph.replay()
        return captured.output[:num_tokens]

    def _capture(self, size):
        rows = torch.tensor([PADDING] * size, dtype=torch.int64, device=self.device)
        self.forward(rows)
        graph = current().graph()
        with graph.capture():
            output = self.forward(rows)
        return Captured(graph, rows, output)
