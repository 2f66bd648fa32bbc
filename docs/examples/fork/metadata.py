"""What attention has to know of a batch, made as it comes to mind: with waits in every step."""

from dataclasses import dataclass

import torch

BLOCK = 16


@dataclass
class Metadata:
    starts: torch.Tensor
    longest: int
    sequence_of_token: torch.Tensor
    slots: torch.Tensor


def build(lengths: list[int], computed: torch.Tensor, block_table: torch.Tensor) -> Metadata:
    """`lengths` [requests] new tokens each; `computed` [requests], `block_table` [requests, blocks]
    on the device."""
    device = computed.device
    counts = torch.tensor(lengths, device=device)
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=device)
    starts[1:] = counts.cumsum(0)
    longest = int(counts.max())
    sequence = torch.repeat_interleave(torch.arange(len(lengths), device=device), counts)
    position = torch.arange(len(sequence), device=device) - starts[sequence] + computed[sequence]
    slots = block_table[sequence, position // BLOCK] * BLOCK + position % BLOCK
    return Metadata(starts, longest, sequence, slots)


def begun(computed: torch.Tensor) -> torch.Tensor:
    """The requests that have nothing in the cache yet."""
    return torch.arange(len(computed), device=computed.device)[computed == 0]
