"""Tests of the kata `physical_to_logical`."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    left_as_they_were,
)

BLOCKS = 12
PLACES = (
    "Where a request's row of `block_table` names a block, its row of the mapping has, in the "
    "column of that block, the number of the entry that named it. All else is -1."
)
ROUNDED = (
    "A request has as many pages as its tokens need, and the last one may be filled in part: with "
    "pages of 16, 17 tokens have 2. Rounded down, the newest tokens would belong to no page."
)
GARBAGE = (
    "Entries after a request's length are what an earlier request left there, and the blocks they "
    "name are another request's by now, or the request's own at another place. They must neither "
    "set nor reset anything: a `scatter_` writes each entry, including those with a value of -1."
)
NULL = (
    "Block 0 is the null block. A table has it where a page is no longer needed, for example "
    "because a sliding window has passed it. It belongs to no request, so column 0 is -1 for all "
    "requests."
)
TWICE = (
    "A table may name a block twice, and then its last place counts. `scatter_` leaves open which "
    "of two writes to one element wins. A reduction to the largest value does not: "
    '`scatter_reduce_(1, ..., "amax")`.'
)
STAYS = (
    "The tables are on the device, and the mapping should be made there. `.tolist()` waits until "
    "all that was queued before is done, and the upload of the host's result waits again. So does "
    "every result whose size only the device knows: `nonzero`, and an index that is a mask."
)
CAPTURED = (
    "A replay runs the kernels of the capture on the same addresses, where the tables of this step "
    "are by now. What the host computed during the capture is not computed again."
)


def right_mapping(tables, lengths, block_size, num_gpu_blocks):
    rows = []
    for blocks, length in zip(tables, lengths, strict=True):
        row = [-1] * num_gpu_blocks
        for place, block in enumerate(blocks[: len(range(0, length, block_size))]):
            if block:
                row[block] = place
        rows.append(row)
    return torch.tensor(rows, dtype=torch.int32)


def on_device(accelerator, numbers):
    return torch.tensor(numbers, dtype=torch.int32).to(accelerator.device)


def expect_mapping(kata, accelerator, tables, lengths, likely, block_size=16):
    arguments = on_device(accelerator, tables), on_device(accelerator, lengths)
    with left_as_they_were(block_table=arguments[0], seq_lens=arguments[1]):
        mapping = kata.physical_to_logical_mapping(*arguments, block_size, BLOCKS)
    expect_equal(
        mapping,
        right_mapping(tables, lengths, block_size, BLOCKS),
        call=f"physical_to_logical_mapping({tables}, {lengths}, {block_size}, {BLOCKS})",
        likely=likely,
    )


@pytest.mark.parametrize(
    ("tables", "lengths"),
    [([[6, 0, 0, 0]], [16]), ([[4, 9, 2]], [48]), ([[7, 1], [3, 5], [8, 0]], [32, 32, 16])],
    ids=["one page", "in any order", "three requests"],
)
def test_a_block_knows_its_place(kata, accelerator, tables, lengths):
    expect_mapping(kata, accelerator, tables, lengths, PLACES)


@pytest.mark.parametrize("block_size", [16, 64])
def test_a_page_that_has_begun_counts(kata, accelerator, block_size):
    lengths = [1, block_size - 1, block_size + 1, 2 * block_size]
    tables = [[5, 0], [2, 0], [8, 3], [1, 9]]
    expect_mapping(kata, accelerator, tables, lengths, ROUNDED, block_size)


@pytest.mark.parametrize(
    ("tables", "lengths"),
    [([[3, 7, 5]], [32]), ([[3, 7, 3]], [32]), ([[4, 6], [2, 9]], [0, 16])],
    ids=["of others", "its own", "no tokens"],
)
def test_nothing_counts_behind_the_length(kata, accelerator, tables, lengths):
    expect_mapping(kata, accelerator, tables, lengths, GARBAGE)


def test_block_0_belongs_to_nobody(kata, accelerator):
    expect_mapping(kata, accelerator, [[0, 0, 5], [4, 0, 0]], [48, 16], NULL)


@pytest.mark.parametrize(
    "blocks", [[2, 2, 5], [5, 2, 7, 2], [3] * 40], ids=["at once", "later", "40 times"]
)
def test_of_a_block_that_stands_twice_the_last_place_counts(kata, accelerator, blocks):
    expect_mapping(kata, accelerator, [blocks], [16 * len(blocks)], TWICE)


class FirstWriteStays(TorchDispatchMode):
    """A dispatch mode in which the first of several writes to one element wins. A GPU may do so,
    since the order is undefined; on sim the last write wins."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        name, args = op.overloadpacket.__name__, list(args)
        if name in ("scatter", "scatter_") and isinstance(args[3], torch.Tensor):
            dim, index, values = args[1:4]
            # Each entry keeps its own place, except in this dimension.
            places = list(torch.meshgrid(*map(torch.arange, index.shape), indexing="ij"))
            places[dim] = index.cpu()
            args[3] = first_of_each(places, values[tuple(map(slice, index.shape))])
        adds_up = len(args) > 3 and args[3]
        if name in ("index_put", "index_put_") and not adds_up and args[0].dim() == len(args[1]):
            places = [index.cpu() for index in args[1] if index is not None]
            if len(places) == len(args[1]) and all(part.dtype != torch.bool for part in places):
                args[2] = first_of_each(places, args[2])
        return op(*args, **(kwargs or {}))


def first_of_each(places, values):
    """Returns the values, where all entries with one place get the first entry's value."""
    *places, right = torch.broadcast_tensors(*places, values.cpu())
    written = {}
    entries = zip(*(part.flatten().tolist() for part in (*places, right)), strict=True)
    kept = [written.setdefault(tuple(place), value) for *place, value in entries]
    return torch.tensor(kept, dtype=values.dtype).view(right.shape).to(values.device)


def test_it_leaves_no_order_of_writes_open(kata, accelerator):
    tables, lengths = [[6, 2, 2, 4], [0, 3, 9, 3]], [64, 64]
    arguments = on_device(accelerator, tables), on_device(accelerator, lengths)
    right = kata.physical_to_logical_mapping(*arguments, 16, BLOCKS).cpu()
    with FirstWriteStays():
        mapping = kata.physical_to_logical_mapping(*arguments, 16, BLOCKS)
    value = f"the mapping of {tables}, where of several writes to one element the first one stays,"
    expect_equal(mapping, right, value=value, likely=TWICE)


def record_call(kata, accelerator):
    """Records a call with 16 requests, queued after a kernel of 50 microseconds."""
    tables = on_device(accelerator, [[1 + request % 4, 6, 7, 9] for request in range(16)])
    lengths = on_device(accelerator, [5 * request for request in range(16)])
    kata.physical_to_logical_mapping(tables, lengths, 16, BLOCKS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.physical_to_logical_mapping(tables, lengths, 16, BLOCKS)
    return timeline


def expect_nothing_travels(timeline):
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=STAYS)


def test_nobody_waits_and_nothing_is_sent(kata, accelerator):
    expect_nothing_travels(record_call(kata, accelerator))


def test_a_replay_maps_the_tables_of_its_step(kata, accelerator):
    tables = on_device(accelerator, [[6, 1, 4], [3, 8, 2]])
    lengths = on_device(accelerator, [48, 48])
    # A step with a wait or an upload can't be captured.
    expect_nothing_travels(record_call(kata, accelerator))
    kata.physical_to_logical_mapping(tables, lengths, 16, BLOCKS)
    graph = accelerator.graph()
    with graph.capture():
        mapping = kata.physical_to_logical_mapping(tables, lengths, 16, BLOCKS)
    steps = [([[9, 1, 7], [5, 3, 11]], [48, 48]), ([[8, 4, 0], [2, 0, 0]], [32, 16])]
    for blocks, counts in steps:
        tables.copy_(torch.tensor(blocks, dtype=torch.int32))
        lengths.copy_(torch.tensor(counts, dtype=torch.int32))
        graph.replay()
        value = f"the mapping of {blocks}, lengths {counts}, in a replay of another step's graph,"
        right = right_mapping(blocks, counts, 16, BLOCKS)
        expect_equal(mapping, right, value=value, likely=CAPTURED)


def common_steps(accelerator):
    def step(name, tables, lengths, block_size=16, blocks=BLOCKS, columns=None):
        shape = (len(lengths), len(tables[0]) if tables else columns or 0)
        table = torch.tensor(tables, dtype=torch.int32).view(shape).to(accelerator.device)
        known = [[block if 0 < block < blocks else 0 for block in row] for row in tables]
        right = right_mapping(known, lengths, block_size, blocks).view(len(lengths), blocks)
        arguments = table, on_device(accelerator, lengths), block_size, blocks
        return Step(f"physical_to_logical_mapping of {name}", arguments, right)

    long = [[2000 - place for place in range(40)]]
    return [
        step("3 requests", [[7, 1, 4], [3, 5, 2], [8, 0, 9]], [33, 48, 16]),
        step("1 request", [[6]], [1]),
        step("3 other requests", [[2, 9, 0], [1, 0, 8], [5, 6, 7]], [20, 5, 41]),
        step("no requests", [], [], columns=4),
        step("blocks that do not exist", [[9, 3, -1, 4, 2]], [80], blocks=4),
        step("tables without columns", [[]], [0]),
        step("1 request of 40 pages", long, [640], blocks=2001),
        step("requests without tokens", [[5, 5], [6, 6]], [0, 0]),
        step("a length beyond the columns", [[5, 6]], [100]),
    ]


COMMON = Common(
    make=lambda kata, accelerator: kata.physical_to_logical_mapping,
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "",
        (
            torch.arange(1, n + 1, dtype=torch.int32).view(1, n).to(accelerator.device),
            on_device(accelerator, [16 * n]),
            16,
            n + 1,
        ),
        None,
    ),
    stale="Each step has tables of its own, and a mapping of its own.",
)
