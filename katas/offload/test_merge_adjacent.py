"""Tests of the kata `merge_adjacent`. A piece is written (source, target, bytes)."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Diagnosis,
    KataFailure,
    Step,
    expect,
    expect_equal,
    python_instructions,
)

EACH_COSTS = (
    "Each piece costs the host time in the driver, however few bytes it has. A piece that begins "
    "where the piece before it ends, in the source and in the target, need not be a piece of its "
    "own."
)
BOTH_SIDES = (
    "Two pieces are one copy only if both sides go on: the second source begins where the first "
    "source ends, and the second target where the first target ends. `src[i] + sizes[i] == "
    "src[i + 1]` is one half of it, and the same of `dst` is the other."
)
GAP = (
    "Between the first piece and the second there are bytes that are in no piece. A copy of the "
    "whole range overwrites them in the target: another request's block, perhaps. Compare where a "
    "piece ends, not how far away the next one begins."
)
ORDER = (
    "Row i of the three arrays is one piece: where it comes from, where it goes, how long it is. "
    "Compare each piece with the one before it in the list, and leave the list in its order. An "
    "array that is sorted by itself no longer fits the other two."
)
LAST = (
    "A run ends where the next piece does not continue it, or where the list ends. A loop that "
    "writes a run down when the next one begins never writes down the last one."
)
SIZES = (
    "The merged piece has as many bytes as all pieces of its run together. They differ: the last "
    "block of a request may be copied in part. `np.add.reduceat(sizes, first)` adds up each run."
)
LOOP = (
    "The driver takes a microsecond or two for a piece, and a loop in Python hardly less: it costs "
    "as much as it saves. Numpy looks at all pieces in a few calls, with `==`, `flatnonzero` and "
    "`add.reduceat`."
)
EMPTY = (
    "A piece of 0 bytes copies nothing, and the driver refuses the whole batch that has one. Leave "
    "these pieces out before you compare neighbours, so that they don't keep other pieces apart."
)
COLUMNS = (
    "The copy takes three numpy arrays of int64, of one length: addresses don't fit into int32, "
    "nor exactly into floats."
)
UNTOUCHED = (
    "They may be views of a buffer that is still needed: an error that names a piece, or another "
    "path, uses the original list. Return new arrays."
)

RUNS = [
    ([(0, 100, 8), (8, 108, 8)], [(0, 100, 16)]),
    ([(0, 100, 8), (8, 108, 8), (16, 116, 8), (24, 124, 8)], [(0, 100, 32)]),
    ([(0, 100, 8), (8, 108, 8), (40, 116, 8), (48, 124, 8)], [(0, 100, 16), (40, 116, 16)]),
    ([(0, 100, 8), (40, 140, 8), (48, 148, 8)], [(0, 100, 8), (40, 140, 16)]),
    ([(0, 100, 8), (8, 108, 8), (40, 140, 8)], [(0, 100, 16), (40, 140, 8)]),
    ([(0, 100, 24), (24, 124, 8), (32, 132, 16)], [(0, 100, 48)]),
    ([(64, 0, 8), (72, 8, 4), (8, 80, 8), (16, 88, 2)], [(64, 0, 12), (8, 80, 10)]),
    # Addresses and sizes are realistic: 3 GiB each.
    ([(7 << 44, 5 << 44, 3 << 30), ((7 << 44) + (3 << 30), (5 << 44) + (3 << 30), 3 << 30)],
     [(7 << 44, 5 << 44, 6 << 30)]),
]  # fmt: skip
APART = [
    ("the targets are apart", [(0, 100, 8), (8, 200, 8)], BOTH_SIDES),
    ("the sources are apart", [(0, 100, 8), (64, 108, 8)], BOTH_SIDES),
    ("both have the same gap", [(0, 100, 8), (16, 116, 8)], GAP),
    ("they overlap in the source", [(0, 100, 8), (4, 108, 8)], BOTH_SIDES),
    ("one source for two targets", [(0, 100, 8), (0, 108, 8)], BOTH_SIDES),
    ("the later one lies ahead", [(8, 108, 8), (0, 100, 8)], ORDER),
    ("the targets are the other way round", [(0, 108, 8), (8, 100, 8)], ORDER),
    ("one stands between them", [(0, 100, 8), (64, 200, 8), (8, 108, 8)], ORDER),
]


def columns_of(pieces):
    """Returns three int64 arrays: sources, targets, sizes."""
    return [torch.tensor(column, dtype=torch.int64).numpy() for column in zip(*pieces, strict=True)]


def merged(kata, pieces):
    """Returns the kata's result for a list of pieces, as such a list."""
    columns = columns_of(pieces)
    kept = [column.copy() for column in columns]
    result = kata.merge_adjacent(*columns)
    expect_columns(result)
    if any((column != copy).any() for column, copy in zip(columns, kept, strict=True)):
        raise KataFailure(
            Diagnosis(
                expected="the arrays that `merge_adjacent` is given to stay as they are",
                did="wrote to them",
                why=UNTOUCHED,
            )
        )
    return list(zip(*(column.tolist() for column in result), strict=True))


def expect_columns(result):
    value = "what `merge_adjacent` returns, by name and dtype,"
    made = [f"{type(column).__name__} {getattr(column, 'dtype', '')}" for column in result]
    expect_equal(made, ["ndarray int64"] * 3, value=value, likely=COLUMNS)
    lengths = [len(column) for column in result]
    value = "the length of each array that `merge_adjacent` returns"
    expect_equal(lengths, [lengths[0]] * 3, value=value, likely=COLUMNS)


def cause_of(result, pieces, otherwise):
    """Returns the likely cause of a wrong answer, judged by the answer."""
    given = [piece for piece in pieces if piece[2]]
    starts = [(source, target) for source, target, _ in given]
    ends = [(source + nbytes, target + nbytes) for source, target, nbytes in given]
    begun = [(source, target) for source, target, _ in result]
    ended = [(source + nbytes, target + nbytes) for source, target, nbytes in result]
    too_many = sum(nbytes for *_, nbytes in result) - sum(nbytes for *_, nbytes in given)
    if any(nbytes == 0 for *_, nbytes in result):
        return EMPTY
    if result == given:
        return EACH_COSTS
    if begun != [start for start in starts if start in begun]:
        return ORDER
    if not {*ended} <= {*ends}:
        return SIZES if too_many else BOTH_SIDES
    if too_many < 0 and ended[-1:] != ends[-1:]:
        return LAST
    return GAP if too_many > 0 else otherwise


def expect_pieces(kata, pieces, right, call, otherwise):
    result = merged(kata, pieces)
    if result != right:
        why = cause_of(result, pieces, otherwise)
        did = f"returned {result}{first_difference(result, right)}"
        raise KataFailure(Diagnosis(f"{call} to return {right}", did, why=why))


def first_difference(result, right):
    """Returns how two lists of pieces differ, as the rest of "returned …"."""
    if len(result) != len(right):
        plural = "" if len(result) == 1 else "s"
        return f", which is {len(result)} piece{plural} and not {len(right)}"
    number = next(i for i in range(len(right)) if result[i] != right[i])
    return f": piece {number} is {result[number]} and not {right[number]}"


@pytest.mark.parametrize(("pieces", "right"), RUNS, ids=range(len(RUNS)))
def test_a_run_is_one_piece(kata, pieces, right):
    call = f"merge_adjacent of the pieces (source, target, bytes) {pieces}"
    expect_pieces(kata, pieces, right, call, BOTH_SIDES)


@pytest.mark.parametrize(
    ("case", "pieces", "why"), APART, ids=[case.replace(" ", "-") for case, _, _ in APART]
)
def test_others_stay_as_they_are(kata, case, pieces, why):
    call = f"merge_adjacent of {pieces}, where {case},"
    expect_pieces(kata, pieces, pieces, call, why)


@pytest.mark.parametrize(
    ("pieces", "right"),
    [
        ([(0, 100, 8), (64, 300, 0), (40, 140, 8)], [(0, 100, 8), (40, 140, 8)]),
        ([(0, 100, 8), (64, 300, 0), (8, 108, 8)], [(0, 100, 16)]),
        ([(64, 300, 0), (0, 100, 8)], [(0, 100, 8)]),
        ([(0, 100, 8), (8, 108, 0)], [(0, 100, 8)]),
        ([(0, 100, 0), (0, 100, 0)], []),
    ],
    ids=["apart", "in-a-run", "first", "last", "all"],
)
def test_pieces_of_no_bytes_are_left_out(kata, pieces, right):
    expect_pieces(kata, pieces, right, f"merge_adjacent of {pieces}", EMPTY)


def test_no_pieces_are_none(kata):
    nothing = torch.empty(0, dtype=torch.int64).numpy()
    result = kata.merge_adjacent(nothing, nothing, nothing)
    expect_columns(result)
    call = "len() of the sources of merge_adjacent of three empty arrays"
    expect_equal(len(result[0]), 0, value=call, likely="A transfer may have nothing to copy.")


def blocks_in_runs(seed):
    """Returns pieces of unordered blocks, with runs of several among them, and targets that
    differ."""
    generator = torch.Generator().manual_seed(seed)
    pieces, target = [], 0
    starts = torch.randperm(16, generator=generator).tolist()
    for start in starts:
        source = 64 * start
        for _ in range(int(torch.randint(1, 4, (), generator=generator))):
            nbytes, chance = torch.randint(0, 4, (2,), generator=generator).tolist()
            nbytes = 4 * nbytes + 4
            pieces.append((source, target, nbytes))
            # Some pieces have a gap in the target, or a gap of the same size in both.
            source += nbytes + (8 if chance == 0 else 0)
            target += nbytes + (8 if chance <= 1 else 0)
    return pieces


def copied(pieces):
    """Returns a target of 2048 bytes after these copies from a source where no two words are
    alike."""
    source = torch.arange(256, dtype=torch.int32).repeat_interleave(4)
    target = torch.full((2048,), -1, dtype=torch.int32)
    for start, to, nbytes in pieces:
        if not (0 <= start <= start + nbytes <= len(source) and to + nbytes <= len(target)):
            return f"a copy of {nbytes} bytes from {start} to {to}, which is in no piece"
        target[to : to + nbytes] = source[start : start + nbytes]
    return target


def test_the_same_bytes_arrive(kata):
    for seed in range(4):
        pieces = blocks_in_runs(seed)
        result = merged(kata, pieces)
        value = f"what {len(pieces)} pieces bring to a target, -1 where none should bring anything,"
        likely = cause_of(result, pieces, BOTH_SIDES)
        expect_equal(copied(result), copied(pieces), value=value, likely=likely)


FEW, MANY = 16, 4096


def test_python_does_not_count_the_pieces(kata):
    counts = []
    for number in (FEW, MANY):
        # The runs have four pieces, with pieces of 0 bytes among them.
        pieces = [(10 * i - i % 4, 20 * i - 11 * (i % 4), 9 * (i % 7 > 0)) for i in range(number)]
        call = partial(kata.merge_adjacent, *columns_of(pieces))
        call()
        counts.append(python_instructions(call))
    few, many = counts
    if many > 2 * few:
        raise KataFailure(
            Diagnosis(
                expected=f"as much Python for {MANY} pieces as for {FEW}",
                did=f"runs {few} instructions of Python for {FEW} pieces, and {many} for {MANY}",
                why=LOOP,
            )
        )


def test_the_device_makes_one_copy_of_a_run(kata, accelerator):
    cpu = torch.arange(64, dtype=torch.int64, pin_memory=accelerator.pin_memory)
    gpu = torch.zeros(64, dtype=torch.int64, device=accelerator.device)
    blocks = [(3, 0), (4, 1), (5, 2), (6, 3), (7, 6), (0, 4), (1, 5), (2, 7)]
    pieces = [(cpu.data_ptr() + 64 * a, gpu.data_ptr() + 64 * b, 64) for a, b in blocks]
    result = merged(kata, pieces)
    likely = cause_of(result, pieces, EACH_COSTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        for source, target, nbytes in result:
            accelerator.copy_bytes(source, target, nbytes)
    right = torch.zeros(8, 8, dtype=torch.int64)
    for source, target in blocks:
        right[target] = cpu.view(8, 8)[source]
    expect_equal(gpu.view(8, 8), right, value="the blocks on the device", likely=likely)
    copies = [event for event in timeline.events if event.kind == "copy"]
    expect(timeline).that(
        len(copies) == 4,
        expected="4 copies for 8 blocks, which are in runs of 4, 1, 2 and 1",
        did=f"left {len(copies)} pieces, which are a copy each",
        events=copies,
        quoted=(),  # the line is the call above
        why=likely,
    )


def common_steps(accelerator):
    far, top = 1 << 32, 1 << 40
    far = [(0, top, 8), (8 + far, top + 8, 8), (16 + far, top + 16 + far, 8)]
    apart = [(16 * i, 8 * i, 8) for i in range(9)]
    cases = {
        "runs of 2 and 3": ([*RUNS[2][0], (56, 132, 8)], [*RUNS[2][1][:1], (40, 116, 24)]),
        "1 piece": ([(5, 7, 3)], [(5, 7, 3)]),
        "other runs of 2 and 3": (
            [(0, 100, 8), (8, 108, 8), (16, 116, 8), (56, 124, 8), (64, 132, 8)],
            [(0, 100, 24), (56, 124, 16)],
        ),
        "a piece twice": ([(5, 7, 3)] * 2, [(5, 7, 3)] * 2),
        "a piece twice, with others between": (
            [(0, 100, 8), (8, 108, 8), (0, 100, 8), (8, 300, 8)],
            [(0, 100, 16), (0, 100, 8), (8, 300, 8)],
        ),
        "no pieces": ([], []),
        "pieces 4 GiB apart": (far, far),
        "a run of 200": ([(8 * i, 8 * i + 4096, 8) for i in range(200)], [(0, 4096, 1600)]),
        "pieces of no bytes": ([(1, 2, 0), (3, 4, 0)], []),
        "pieces apart": (apart, apart),
    }
    columns = lambda pieces: tuple(np.array(pieces, dtype=np.int64).reshape(-1, 3).T.copy())
    return [
        Step(f"merge_adjacent of {name}", columns(pieces), columns(right))
        for name, (pieces, right) in cases.items()
    ]


def sized_step(accelerator, n):
    """Returns every second piece in a run with the one before it."""
    starts = np.arange(n, dtype=np.int64) * 8 + np.arange(n, dtype=np.int64) // 2 * 8
    return Step("", (starts, starts + 4096, np.full(n, 8)), None)


COMMON = Common(
    make=lambda kata, accelerator: kata.merge_adjacent,
    steps=common_steps,
    sized=sized_step,
    sizes=(64, 1024),
    stale="Each call has pieces of its own.",
)


def test_memory_grows_with_the_pieces(kata, accelerator):
    peaks = []
    for count in (256, 4096):
        columns = sized_step(accelerator, count).arguments
        kata.merge_adjacent(*columns)
        tracemalloc.start()
        kata.merge_adjacent(*columns)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    if peaks[1] > 32 * max(peaks[0], 4096):
        raise KataFailure(
            Diagnosis(
                expected="about 16 times the memory for 16 times the pieces",
                did=f"takes {peaks[0]:,} bytes for 256 pieces, and {peaks[1]:,} for 4,096",
                why=TABLE_OF_ALL,
            )
        )


TABLE_OF_ALL = (
    "A comparison of each piece with each other piece is a table of N * N numbers, and time grows "
    "with it. Only neighbours in the list can be joined: compare `src[1:]` with the ends before."
)
