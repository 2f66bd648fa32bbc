"""As large as a step can be (chapter 04, medium, 30 minutes).

A buffer that graphs have captured can't grow, because they would go on reading the old one. So it
is made once, for the largest step that the scheduler may ever put together. The function below says
how large each buffer is, and small steps fit. But two kinds of step run over the end: a step with
more tokens than a single request may have, and a step in which 16 requests share a group.

Find the sizes that every step within `limits` fits into, and no larger sizes: this memory is lost
to the KV cache. Neither `max_num_seqs` nor `max_num_batched_tokens` is smaller than `q_block`.

    query_start_loc      one for each request, then the end of the last
    seq_lens             one for each request
    block_table          request, page: the blocks of the KV cache that hold its tokens
    doc_ids              one for each token of the step: the request of that token
    decode_offset        one for each request
    physical_to_logical  request, block: the reverse table, for any block of the KV cache
    kv_num_blocks        one for each group of `q_block` tokens: how many pages it needs
    kv_indices           group, page: the pages of all requests that have tokens in the group,
                         then a -1 that the kernel reads as well

You need to know what pages and blocks of a KV cache are.

Edit this file, then run

    pytest katas/flex_graph/test_buffer_sizes.py

Stuck?         debubble hint buffer_sizes
Start afresh?  debubble reset buffer_sizes
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

BLOCK_SIZES = (16, 32, 64, 128)
ALONE = 1
MOST_SLOTS = 2**31 - 1


# Yours to edit, from here on.
def buffer_shapes(limits: Limits) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each buffer, by its name: no step within the limits needs more.

    The number of groups depends on the tokens of a step, not on the length of a request. Each token
    of a group may belong to a different request, with as many pages as a request can have. A -1
    that a kernel may read comes after these pages.
    """
    seqs, tokens, pages = limits.max_num_seqs, limits.max_model_len, limits.pages_per_seq
    groups = limits.groups_of(tokens)
    return {
        "query_start_loc": (seqs + 1,),
        "seq_lens": (seqs,),
        "block_table": (seqs, pages),
        "doc_ids": (tokens,),
        "decode_offset": (seqs,),
        "physical_to_logical": (seqs, limits.num_gpu_blocks),
        "kv_num_blocks": (groups,),
        "kv_indices": (groups, pages),
    }


# region Given: what the code above uses. You may change it, and need not.


def is_integer(value: object) -> bool:
    """Returns True for integers of Python and numpy, but not for True and False."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_counts(config: object, names: Iterable[str]) -> None:
    """Raises ValueError for the first of the fields `names` of `config` that is no integer, or
    below 1."""
    for name in names:
        value = getattr(config, name)
        if not is_integer(value):
            raise ValueError(f"{name} {value!r}: it must be an integer")
        if value < 1:
            raise ValueError(f"{name} {value}: it must be at least 1")


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


# endregion
