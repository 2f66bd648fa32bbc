"""The most that a scheduler may put into one step, and the size of the KV cache. All sizes follow
from these, and so do the sizes of graphs: a step runs in the smallest graph that holds it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from solutions.common.decoder.shape import check_counts
from solutions.common.host_integers import is_integer
from solutions.common.shown import shown

BLOCK_SIZES = (16, 32, 64, 128)
"""Allowed numbers of tokens of a page, and of a group: FlexAttention has a tile for them."""
ALONE = 1
"""A `q_block` of one token: each token has its own list of pages, and its own place in the batch
that FlexAttention is called with. Tokens of other requests then cost it nothing, but tokens of one
request each read its pages again. Use it for steps that decode."""
MOST_SLOTS = 2**31 - 1
"""The most slots of a KV cache, since they are numbered in int32."""
LARGEST_CAPTURE = 256
"""The largest of the default capture sizes, in tokens: a larger step keeps the device busy while
the host launches it."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The scheduler's maxima: buffers and graphs of these sizes fit every step.

    Raises ValueError for values that are impossible.
    """

    max_num_seqs: int
    """Requests of one step."""
    max_num_batched_tokens: int
    """Tokens of one step, of all its requests."""
    max_model_len: int
    """Tokens of one request, those computed before included."""
    num_gpu_blocks: int
    """Pages of the KV cache. Block 0 is the null block, which belongs to no request."""
    block_size: int = 16
    """Tokens of a page."""
    q_block: int = 16
    """Query tokens of a group, which share one list of pages; ALONE for groups of one."""

    def __post_init__(self) -> None:
        check_counts(self, [field.name for field in fields(self)])
        for name, sizes in (("block_size", BLOCK_SIZES), ("q_block", (ALONE, *BLOCK_SIZES))):
            if getattr(self, name) not in sizes:
                known = ", ".join(map(str, sizes))
                raise ValueError(f"{name} {getattr(self, name)}: choose one of {known}")
        if self.num_gpu_blocks < 2:
            raise ValueError(
                f"num_gpu_blocks {self.num_gpu_blocks}: block 0 belongs to no request, so give "
                "the cache at least 2"
            )
        if self.num_slots > MOST_SLOTS:
            raise ValueError(
                f"num_gpu_blocks {self.num_gpu_blocks} of {self.block_size} tokens: slots are "
                f"int32, so use at most {MOST_SLOTS // self.block_size} blocks"
            )

    @property
    def pages_per_seq(self) -> int:
        """The pages of the longest request, and so the columns of a block table."""
        return -(-self.max_model_len // self.block_size)

    @property
    def groups(self) -> int:
        """The number of groups of q_block tokens in the largest step."""
        return self.groups_of(self.max_num_batched_tokens)

    @property
    def num_slots(self) -> int:
        """The number of tokens that fit into the KV cache, block 0 included."""
        return self.num_gpu_blocks * self.block_size

    def groups_of(self, num_tokens: int) -> int:
        """Returns how many groups of q_block tokens `num_tokens` tokens need."""
        return -(-num_tokens // self.q_block)

    def pages_of(self, num_tokens: int) -> int:
        """Returns how many pages `num_tokens` tokens of one request need."""
        return -(-num_tokens // self.block_size)


def default_capture_sizes(limits: Limits, largest: int = LARGEST_CAPTURE) -> tuple[int, ...]:
    """Returns the sizes of steps to capture by default, in tokens: 1, 2, 4, 8, 16, 24, 32, … up to
    the most tokens of a step, or up to `largest` if that is less."""
    last = min(limits.max_num_batched_tokens, largest)
    return tuple(sorted({size for size in (1, 2, 4, *range(8, last, 8)) if size < last} | {last}))


def checked_capture_sizes(
    sizes: Iterable[int], limits: Limits, most: str = "max_num_batched_tokens"
) -> tuple[int, ...]:
    """Returns the capture sizes without repetition, ascending. Raises ValueError for a size that no
    step can have; `most` is the name of the field of `limits` that bounds them."""
    largest = getattr(limits, most)
    for size in (sizes := list(sizes)):
        if not is_integer(size) or not 1 <= size <= largest:
            raise ValueError(
                f"a graph for {shown(size)} tokens: capture sizes from 1 to {most}, which is "
                f"{largest}"
            )
    return tuple(sorted(set(sizes)))


def size_for(num_tokens: int, ascending_sizes: Sequence[int]) -> int | None:
    """Returns the smallest of the sizes that holds `num_tokens` tokens, or None if none does."""
    place = bisect_left(ascending_sizes, num_tokens)
    return ascending_sizes[place] if place < len(ascending_sizes) else None
