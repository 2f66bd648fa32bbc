"""Keeps the inputs as rows of a pinned table, and sends the columns that a step needs.

fails: test_chapter_02_the_inputs_are_sent_together
fails: test_altogether_the_host_never_waits
says: A slice of a pinned tensor with gaps between its rows travels as pageable memory does
"""

import torch

from debubble.accelerator import current
from solutions.engine.katas import sync_free_step as solved
from solutions.engine.katas.sync_free_step import SampledTokens, attention, recurrence

__all__ = ["Engine", "SampledTokens", "attention", "recurrence"]

COLUMNS = 128


class Engine(solved.Engine):
    def step(self, requests):
        for request in requests:
            if request.slot in self.loads:
                current().current_stream().wait_event(self.loads.pop(request.slot))
        if any(request.prompt for request in requests):
            rows, shapes = packed(requests)
            rows = rows.to(self.cache.device, non_blocking=True)
            sampled = self._forward(unpacked(rows, shapes))
        else:
            rows, _ = packed(solved.padded(requests, solved.MOST_REQUESTS, solved.PADDING))
            self.decode_rows.copy_(rows, non_blocking=True)
            self.decode.replay()
            sampled = self.decode_sampled
        return SampledTokens(sampled[: len(requests)])

    def _capture_decode(self):
        rows, shapes = packed(solved.padded([], solved.MOST_REQUESTS, solved.PADDING))
        self.decode_rows = rows.to(self.cache.device)
        inputs = unpacked(self.decode_rows, shapes)
        self._forward(inputs)
        self.decode = current().graph()
        with self.decode.capture():
            self.decode_sampled = self._forward(inputs)


def packed(requests):
    numbers, shapes = solved.packed_inputs(requests)
    parts = numbers.split([shape.numel() for shape in shapes])
    pin_memory = current().pin_memory
    table = torch.zeros(len(parts), COLUMNS, dtype=torch.int64, pin_memory=pin_memory)
    for row, part in zip(table, parts, strict=True):
        row[: len(part)] = part
    return table[:, : max(map(len, parts))], shapes


def unpacked(rows, shapes):
    parts = [row[: shape.numel()] for row, shape in zip(rows, shapes, strict=True)]
    return solved.Inputs(*(part.view(shape) for part, shape in zip(parts, shapes, strict=True)))
