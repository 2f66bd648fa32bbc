"""Tests of the kata `local_cumsum`."""

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
    left_as_they_were,
)

HEADS = 3
NO_TRITON = (
    "the kata local_cumsum is a Triton kernel, and Triton is not installed here: it needs Linux, "
    "in a container, in WSL 2 or on another host"
)
ANEW = (
    "The sums begin at 0 in each chunk of `chunk_size` tokens, and each sequence begins a chunk. "
    "So a program adds up the tokens of one chunk, and nothing is carried over to the next."
)
BESIDE = (
    "Did a program write beyond its chunk? Programs run in any order, and at the same time: a "
    "write into the rows of another program may come last. A chunk ends after `chunk_size` tokens, "
    "or with its sequence if that comes first: mask the load and the store by that end."
)
NO_CHUNK = (
    "A row (-1, -1) stands for no chunk. There is no sequence -1, and the memory before the first "
    "element of a tensor is not its own: return before you read it."
)
ASKED = (
    "Reading the starts or the table on the host, or a number made of them, waits for all that was "
    "queued before. But the host need not know where the chunks are, nor how many rows are chunks: "
    "the kernel reads that on the device. The host starts a program for each row, "
    "`len(chunk_indices)`."
)
ONE_BY_ONE = (
    "A launch takes the host a few microseconds, and a chunk keeps one of an H200's 132 "
    "multiprocessors busy for less: launched one by one they follow each other, and nearly all of "
    "the device idles. One launch of many programs fills it."
)


@pytest.fixture(autouse=True)
def triton():
    """Skips the test if Triton is missing: not even the exercise itself could be loaded then."""
    pytest.importorskip("triton", reason=NO_TRITON)


def starts_of(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def gates_of(num_tokens, heads=HEADS):
    """Returns [num_tokens, heads], whole numbers whose sums are exact in any order."""
    return -(torch.arange(num_tokens * heads) * 5 % 7).float().view(num_tokens, heads)


def table_of(lengths, chunk_size):
    return [
        (sequence, chunk)
        for sequence, length in enumerate(lengths)
        for chunk, _ in enumerate(range(0, length, chunk_size))
    ]


def on_device(accelerator, lengths, chunk_size, table=None, heads=HEADS):
    """Returns the arguments, with the table of these lengths or with `table`. Gates and starts are
    slices of longer tensors, as in an engine, so other values lie before them."""
    rows = table_of(lengths, chunk_size) if table is None else table
    indices = torch.tensor(rows, dtype=torch.int32).view(-1, 2)
    gates = torch.cat([torch.ones(chunk_size, heads), gates_of(sum(lengths), heads)])
    starts = torch.cat([torch.zeros(1, dtype=torch.int32), starts_of(lengths)])
    gates, starts, indices = (tensor.to(accelerator.device) for tensor in (gates, starts, indices))
    return gates[chunk_size:], chunk_size, starts[1:], indices


def right_sums(lengths, chunk_size, heads=HEADS):
    chunks = [
        chunk.cumsum(0)
        for sequence in gates_of(sum(lengths), heads).split(lengths)
        for chunk in sequence.split(chunk_size)
    ]
    return torch.cat(chunks)


def expect_sums(sums, lengths, chunk_size, likely, heads=HEADS):
    value = f"the sums of sequences of {lengths} tokens, in chunks of {chunk_size},"
    expect_equal(sums, right_sums(lengths, chunk_size, heads), value=value, likely=likely)


@pytest.mark.parametrize(
    "lengths", [[5], [16], [17], [20, 3], [32, 0, 40], [1, 15, 16, 1]], ids=str
)
def test_sums_begin_anew_in_each_chunk(kata, accelerator, lengths):
    g, chunk_size, starts, table = on_device(accelerator, lengths, 16)
    with left_as_they_were(g=g, cu_seqlens=starts, chunk_indices=table):
        sums = kata.chunk_local_cumsum(g, chunk_size, starts, table)
    expect_sums(sums, lengths, 16, ANEW)


@pytest.mark.parametrize(("chunk_size", "heads"), [(32, 1), (64, 8)])
def test_chunks_and_heads_of_other_numbers(kata, accelerator, chunk_size, heads):
    lengths = [70, 3, 64]
    sums = kata.chunk_local_cumsum(*on_device(accelerator, lengths, chunk_size, heads=heads))
    expect_sums(sums, lengths, chunk_size, ANEW, heads)


def test_programs_may_run_in_any_order(kata, accelerator):
    """Programs run here in the order of the table, so the table is reversed."""
    lengths = [20, 3, 37, 16]
    table = table_of(lengths, 16)[::-1]
    sums = kata.chunk_local_cumsum(*on_device(accelerator, lengths, 16, table))
    expect_sums(sums, lengths, 16, BESIDE)


def test_rows_without_a_chunk_are_skipped(kata, accelerator):
    lengths = [20, 0, 3]
    table = [*table_of(lengths, 16), (-1, -1), (-1, -1)]
    sums = kata.chunk_local_cumsum(*on_device(accelerator, lengths, 16, table))
    expect_sums(sums, lengths, 16, NO_CHUNK)


def record_call(kata, accelerator, lengths):
    """Records a call, queued after a kernel of 50 microseconds."""
    args = on_device(accelerator, lengths, 16)
    kata.chunk_local_cumsum(*args)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.chunk_local_cumsum(*args)
    return timeline


def test_the_device_is_not_asked(kata, accelerator):
    timeline = record_call(kata, accelerator, [20, 0, 3])
    expect(timeline).counts(host_syncs=0, d2h=0, why=ASKED)


def test_all_chunks_share_one_launch(kata, accelerator):
    few, many = (record_call(kata, accelerator, [17] * number) for number in (1, 5))
    # The first kernel is the sleep that everything was queued after.
    for_few, for_many = (
        [event for event in timeline.events if event.kind == "kernel"][1:]
        for timeline in (few, many)
    )
    expect(many).that(
        len(for_many) == len(for_few),
        expected="10 chunks to take as many kernels as 2",
        did=f"launches {len(for_few)} for 2 chunks, and {len(for_many)} for 10",
        events=for_many,
        why=ONE_BY_ONE,
    )


def common_steps(accelerator):
    batches = [([20, 3, 37], 16), ([5], 16), ([], 16), ([0, 0], 32), ([200, 1, 64], 64), ([1], 16)]
    batches.append(([1, 64, 200], 64))
    return [
        Step(
            f"chunk_local_cumsum of {lengths} tokens, in chunks of {size},",
            on_device(accelerator, lengths, size),
            right_sums(lengths, size) if sum(lengths) else torch.empty(0, HEADS),
        )
        for lengths, size in batches
    ]


COMMON = Common(
    make=lambda kata, accelerator: kata.chunk_local_cumsum,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", on_device(accelerator, [17] * n, 16), None),
    sizes=(4, 16),
    stale="Each step has lengths of its own, and sums of its own.",
)


def test_one_kernel_serves_all_numbers_of_rows(kata, accelerator, monkeypatch):
    launch, compiled = accelerator.launch, set()

    def noting(kernel, grid, *args, work=None, **constants):
        compiled.add(tuple(sorted(constants.items())))
        return launch(kernel, grid, *args, work=work, **constants)

    monkeypatch.setattr(accelerator, "launch", noting)
    batches = ([20, 3], [5], [37, 1, 40], [16] * 7)
    for lengths in batches:
        kata.chunk_local_cumsum(*on_device(accelerator, lengths, 16))
    if len(compiled) > 1:
        one, other = sorted(compiled)[:2]
        raise KataFailure(
            Diagnosis(
                expected=f"{len(batches)} steps with chunks of one size to launch one kernel",
                did=f"has it compiled {len(compiled)} times, for {dict(one)}, {dict(other)} "
                "and so on",
                why=COMPILED_AGAIN,
            )
        )


COMPILED_AGAIN = (
    "A `tl.constexpr` is a part of the kernel: each new value of it is compiled, which takes a "
    "second. What differs from step to step, such as the number of tokens, of sequences or of "
    "rows, is an argument without `tl.constexpr`."
)
