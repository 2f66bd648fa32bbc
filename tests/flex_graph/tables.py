"""Batches over block tables, by hand or at random, and their expected tables, by plain loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from solutions.flex_graph.buffers import PersistentBuffers
from solutions.flex_graph.mask import BIDIRECTIONAL, CAUSAL, Mask, sliding_window
from solutions.flex_graph.steps.batch import CommonAttentionMetadata
from solutions.flex_graph.steps.limits import Limits

LIMITS = Limits(
    max_num_seqs=4, max_num_batched_tokens=40, max_model_len=70, num_gpu_blocks=24, block_size=16
)
"""Limits with 5 pages a request and 3 groups of tokens; the last group is never full."""
MASKS = {
    "causal": CAUSAL,
    "bidirectional": BIDIRECTIONAL,
    "window": sliding_window(20),
    "window on both sides": Mask(causal=False, sliding_window=20),
}
GARBAGE = (10**9, 1, -3, 2, 24, 0)
"""Values in the columns of a block table after a request's pages: no valid blocks, and blocks of
other requests."""


@dataclass(frozen=True)
class Batch:
    """A batch of requests with block tables, on the host. Requests without tokens come last."""

    query_lens: list[int]
    seq_lens: list[int]
    table: np.ndarray
    """[R, C] int32: the pages of each request, then garbage."""
    num_tokens: int
    """The number of tokens, including those that pad the batch to a captured size."""

    @classmethod
    def of(
        cls,
        requests: Sequence[tuple[int, int, Sequence[int]]],
        limits: Limits = LIMITS,
        num_tokens: int | None = None,
        columns: int | None = None,
    ) -> Batch:
        """Returns a batch of `requests`, each (number of tokens in this step, length with them,
        pages). Garbage fills the table's other columns."""
        columns = limits.pages_per_seq if columns is None else columns
        table = np.resize(np.array(GARBAGE, np.int32), (len(requests), columns))
        for row, (_, seq_len, pages) in enumerate(requests):
            assert len(pages) == limits.pages_of(seq_len)
            table[row, : len(pages)] = pages
        query_lens = [query_len for query_len, _, _ in requests]
        return cls(
            query_lens=query_lens,
            seq_lens=[seq_len for _, seq_len, _ in requests],
            table=table,
            num_tokens=sum(query_lens) if num_tokens is None else num_tokens,
        )

    @classmethod
    def shuffled(
        cls,
        lengths: Sequence[tuple[int, int]],
        limits: Limits = LIMITS,
        seed: int = 0,
        num_tokens: int | None = None,
    ) -> Batch:
        """Returns a batch of requests with these `lengths`, each (number of tokens in this step,
        length with them). Their pages are random, and no two requests share one."""
        free = iter(np.random.default_rng(seed).permutation(np.arange(1, limits.num_gpu_blocks)))
        requests = [
            (query_len, seq_len, [next(free) for _ in range(limits.pages_of(seq_len))])
            for query_len, seq_len in lengths
        ]
        return cls.of(requests, limits, num_tokens)

    @property
    def starts(self) -> list[int]:
        return [0, *accumulate(self.query_lens)]

    def tokens(self) -> Iterator[tuple[int, int, int]]:
        """Yields (index of the token in the batch, row of its request, position in the request) for
        each token."""
        token = 0
        for row, (query_len, seq_len) in enumerate(
            zip(self.query_lens, self.seq_lens, strict=True)
        ):
            for position in range(seq_len - query_len, seq_len):
                yield token, row, position
                token += 1

    def common(self, accelerator, max_seq_len: int | None = None) -> CommonAttentionMetadata:
        return CommonAttentionMetadata(
            query_start_loc=on_device(accelerator, self.starts),
            seq_lens=on_device(accelerator, self.seq_lens),
            block_table=on_device(accelerator, self.table),
            num_actual_tokens=self.num_tokens,
            max_seq_len=max([0, *self.seq_lens]) if max_seq_len is None else max_seq_len,
        )

    def in_all_rows(self, limits: Limits = LIMITS) -> Batch:
        """Returns the same batch with `max_num_seqs` rows, filled up with requests without tokens,
        and a table as wide as the limits, filled up with garbage."""
        rows, columns = self.table.shape
        padding = limits.max_num_seqs - rows
        table = np.resize(np.array(GARBAGE, np.int32), (limits.max_num_seqs, limits.pages_per_seq))
        table[:rows, :columns] = self.table
        return Batch(
            self.query_lens + [0] * padding, self.seq_lens + [0] * padding, table, self.num_tokens
        )

    def copy_into(self, inputs: PersistentBuffers | CommonAttentionMetadata) -> None:
        """Writes the batch to all rows of the inputs in place, as a runner does before a replay."""
        inputs.query_start_loc.copy_(torch.tensor(self.starts, dtype=torch.int32))
        inputs.seq_lens.copy_(torch.tensor(self.seq_lens, dtype=torch.int32))
        inputs.block_table.copy_(torch.from_numpy(self.table))


def on_device(accelerator, numbers: Sequence | np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(numbers, np.int32)).to(accelerator.device)


@st.composite
def some_batches(draw, limits: Limits = LIMITS) -> Batch:
    """Draws a batch of decodes, prefills and parts of prefills in any order. Their pages are
    arbitrary: some shared between requests, repeated in a request, or invalid."""
    requests, room = [], limits.max_num_batched_tokens
    while len(requests) < limits.max_num_seqs and room and draw(st.booleans()):
        query_len = min(room, draw(st.sampled_from([1, 1, 2, 15, 16, 17, 33])))
        seq_len = query_len + draw(st.integers(0, limits.max_model_len - query_len))
        num_pages = limits.pages_of(seq_len)
        blocks = st.integers(-1, limits.num_gpu_blocks)
        pages = draw(st.lists(blocks, min_size=num_pages, max_size=num_pages))
        requests.append((query_len, seq_len, pages))
        room -= query_len
    padding = draw(st.integers(0, limits.max_num_seqs - len(requests)))
    columns = max([1, *(len(pages) for _, _, pages in requests)])
    return Batch.of(
        requests + [(0, 0, [])] * padding,
        limits,
        num_tokens=draw(
            st.integers(max(1, limits.max_num_batched_tokens - room), limits.max_num_batched_tokens)
        ),
        columns=draw(st.integers(columns, limits.pages_per_seq)),
    )


def places(batch: Batch, row: int, limits: Limits = LIMITS) -> dict[int, int]:
    """Returns {block: its index among the request's pages} for the request in this row. If pages
    repeat a block, the last index counts."""
    pages = batch.table[row, : limits.pages_of(batch.seq_lens[row])].tolist()
    return {block: place for place, block in enumerate(pages) if 0 < block < limits.num_gpu_blocks}


def sees(mask: Mask, position: int, key: int) -> bool:
    """Returns True if the position sees the key by this mask, whose logical_mask_mod is ignored."""
    near = mask.sliding_window is None or abs(position - key) < mask.sliding_window
    return near and (key <= position or not mask.causal)


def expected_pages(batch: Batch, mask: Mask, limits: Limits = LIMITS) -> list[list[int]]:
    """Returns for each group of tokens the blocks with a key that one of its tokens sees, in the
    order in which the kernels list them."""
    page = limits.block_size
    groups = [{} for _ in range(limits.groups_of(batch.num_tokens))]
    ordered = [
        sorted(places(batch, row, limits).items(), key=lambda item: item[1])
        for row in range(len(batch.seq_lens))
    ]
    for token, row, position in batch.tokens():
        for block, place in ordered[row]:
            keys = range(place * page, min((place + 1) * page, batch.seq_lens[row]))
            if any(sees(mask, position, key) for key in keys):
                groups[token // limits.q_block].setdefault(block)
    return [list(found) for found in groups]


def expected_places(batch: Batch, limits: Limits = LIMITS) -> np.ndarray:
    """Returns the expected table physical_to_logical, [R, num_gpu_blocks]: the index of each block
    among a request's pages, or -1."""
    expected = np.full((len(batch.seq_lens), limits.num_gpu_blocks), -1)
    for row in range(len(batch.seq_lens)):
        for block, place in places(batch, row, limits).items():
            expected[row, block] = place
    return expected


def expected_sight(batch: Batch, mask: Mask, limits: Limits = LIMITS) -> np.ndarray:
    """Returns [num_tokens, num_slots] bool: True for the slots that a token sees. The mask's
    logical_mask_mod is ignored."""
    page = limits.block_size
    expected = np.zeros((batch.num_tokens, limits.num_slots), bool)
    for token, row, position in batch.tokens():
        for block, place in places(batch, row, limits).items():
            for key in range(place * page, min((place + 1) * page, batch.seq_lens[row])):
                expected[token, block * page + key % page] = sees(mask, position, key)
    return expected


class Results(TorchDispatchMode):
    """A dispatch mode that keeps all tensors that operators return on the device, views among them,
    in `tensors`."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[torch.Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False, so that PyTorch doesn't import its compiler, which would change how other
        code waits."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.tensors += [
            leaf
            for leaf in tree_leaves(result)
            if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu"
        ]
        return result


def listed(kv_num_blocks: torch.Tensor, kv_indices: torch.Tensor) -> list[list[int]]:
    """Returns the listed blocks of each group. Raises AssertionError unless each list ends with
    -1."""
    counts, rows = kv_num_blocks.tolist(), kv_indices.tolist()
    assert [row[count] for count, row in zip(counts, rows, strict=True)] == [-1] * len(counts)
    return [row[:count] for count, row in zip(counts, rows, strict=True)]


def expect_built(
    buffers: PersistentBuffers, batch: Batch, mask: Mask, limits: Limits = LIMITS
) -> None:
    """Checks all tables that a build of this batch leaves in the buffers."""
    batch, groups = batch.in_all_rows(limits), limits.groups_of(batch.num_tokens)
    assert buffers.query_start_loc.tolist() == batch.starts
    assert buffers.seq_lens.tolist() == batch.seq_lens
    differences = zip(batch.seq_lens, batch.query_lens, strict=True)
    assert buffers.decode_offset.tolist() == [
        seq_len - query_len for seq_len, query_len in differences
    ]
    rows = [row for _, row, _ in batch.tokens()]
    filling = [0] * (batch.num_tokens - len(rows))
    assert buffers.doc_ids[: batch.num_tokens].tolist() == rows + filling
    expected = expected_places(batch, limits)
    assert np.array_equal(buffers.physical_to_logical.cpu().numpy(), expected)
    made = listed(buffers.kv_num_blocks[:groups], buffers.kv_indices[:groups])
    assert made == expected_pages(batch, mask, limits)
