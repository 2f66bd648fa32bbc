"""Tests of the kata `thread_the_tables`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    in_a_row,
    left_as_they_were,
    no_pinned_memory,
)

CHUNK_TOKENS = 64  # as in the kata
LAYERS = 24
OPS = ("decay_until_end", "chunk_local_cumsum", "last_of_chunk")
RAGGED = [70, 0, 130, 64, 1]
OF_ITS_CHUNK = (
    "A chunk has 64 tokens of one sequence, the last one of each sequence may have fewer, and none "
    "has tokens of two. If the op and its stages are as they came, look at the table: does it have "
    "64 tokens a chunk, as they do? A table with another chunk size makes them compute wrong "
    "numbers, and no error tells."
)
ITS_OWN = (
    "Not every caller has a table. A caller that gives none, or None, gets the same result: the op "
    "then makes a table from `cu_seqlens`, as it did before."
)
ASKS_AGAIN = (
    "A table was given, and the op still reads from the device where the sequences are: a wait. "
    "Each stage that needs a table has to get the given table, and makes its own only if that is "
    "None."
)
PER_LAYER = (
    "The sequences are the same for all layers, so one table serves them all. Make it once, before "
    "the first layer, and pass it down: each op that gets no table makes its own, with two waits."
)
ASKED = (
    "One wait a step is one too many: the host stands still until the step before is done, and the "
    "device then waits for the host. The starts are on the host too, in `cu_seqlens_cpu`. Upload "
    "the table from pinned memory, with non_blocking=True."
)
STALE = (
    "Did you keep the table of an earlier step? The engine writes each step's starts into the same "
    "tensors, so that the same tensor does not mean the same sequences. Make the table in each "
    "step: once is cheap."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that the next step writes "
    "to again may bring the table of the wrong step. Take fresh pinned memory in each."
)


def starts_of(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def gates_of(num_tokens, layer=0):
    """Returns whole numbers, whose sums are exact in any order."""
    return -((torch.arange(num_tokens) * 7 + layer) % 5).float()


def table_of(lengths):
    rows = [
        (sequence, chunk)
        for sequence, length in enumerate(lengths)
        for chunk, _ in enumerate(range(0, length, CHUNK_TOKENS))
    ]
    return torch.tensor(rows, dtype=torch.int32).view(-1, 2)


def chunks_of(values, lengths):
    for sequence in values.split(lengths):
        yield from sequence.split(CHUNK_TOKENS) if len(sequence) else ()


def right_result(op, values, lengths):
    parts = {
        "chunk_local_cumsum": lambda chunk: chunk.cumsum(0),
        "last_of_chunk": lambda chunk: chunk[-1].expand(len(chunk)),
        "decay_until_end": lambda chunk: chunk.sum() - chunk.cumsum(0),
    }
    return torch.cat([parts[op](chunk) for chunk in chunks_of(values, lengths)])


def expect_decays(decays, gates, lengths, where="", likely=OF_ITS_CHUNK):
    for number, (decay, g) in enumerate(zip(decays, gates, strict=True)):
        value = f"the decays of layer {number}, of sequences of {lengths} tokens{where},"
        right = right_result("decay_until_end", g.cpu(), lengths)
        expect_equal(decay, right, value=value, likely=likely)


def arguments(accelerator, lengths, layers):
    gates = [gates_of(sum(lengths), layer).to(accelerator.device) for layer in range(layers)]
    starts = starts_of(lengths)
    return gates, starts.to(accelerator.device), starts


@pytest.mark.parametrize("lengths", [[5], [64], [65, 3], [128, 0, 128], RAGGED], ids=str)
def test_each_layer_gets_its_decays(kata, accelerator, lengths):
    args = arguments(accelerator, lengths, layers=3)
    decays = kata.decays_of_layers(*args)
    expect_equal(len(decays), 3, value="the number of results for 3 layers")
    expect_decays(decays, args[0], lengths)


def call_op(kata, accelerator, op, *tables):
    """Calls the op with the values and starts of RAGGED, followed by `tables`."""
    values = gates_of(sum(RAGGED)).to(accelerator.device)
    starts = starts_of(RAGGED).to(accelerator.device)
    return getattr(kata, op)(values, starts, *tables)


def expect_result(result, op, likely):
    right = right_result(op, gates_of(sum(RAGGED)), RAGGED)
    value = f"what `{op}` returns for sequences of {RAGGED} tokens"
    expect_equal(result, right, value=value, likely=likely)


@pytest.mark.parametrize("tables", [(), (None,)], ids=["no table", "None"])
@pytest.mark.parametrize("op", OPS)
def test_an_op_without_a_table_makes_its_own(kata, accelerator, op, tables):
    expect_result(call_op(kata, accelerator, op, *tables), op, ITS_OWN)


@pytest.mark.parametrize("op", OPS)
def test_an_op_that_is_given_a_table_uses_it(kata, accelerator, op):
    table = table_of(RAGGED).to(accelerator.device)
    expect_result(call_op(kata, accelerator, op, table), op, OF_ITS_CHUNK)
    values = gates_of(sum(RAGGED)).to(accelerator.device)
    starts = starts_of(RAGGED).to(accelerator.device)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        getattr(kata, op)(values, starts, table)
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=ASKS_AGAIN)


def record_step(kata, accelerator):
    """Records a step of 24 layers, queued after a kernel of 50 microseconds."""
    kata.decays_of_layers(*arguments(accelerator, RAGGED, LAYERS))
    args = arguments(accelerator, RAGGED, LAYERS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.decays_of_layers(*args)
    return timeline


def test_24_layers_do_not_wait(kata, accelerator):
    timeline = record_step(kata, accelerator)
    why = PER_LAYER if timeline.counts()["host_syncs"] >= LAYERS else ASKED
    expect(timeline).counts(host_syncs=0, d2h=0, why=why)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=why)


def test_24_layers_share_one_upload(kata, accelerator):
    timeline = record_step(kata, accelerator)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) <= 1,
        expected=f"1 upload for {LAYERS} layers",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=PER_LAYER,
    )


def test_each_step_has_its_own_table(kata, accelerator):
    gates, starts, starts_cpu = arguments(accelerator, [70, 130], layers=2)
    for lengths in ([70, 130], [130, 70], [200, 0]):
        starts_cpu.copy_(starts_of(lengths))
        starts.copy_(starts_cpu)
        decays = kata.decays_of_layers(gates, starts, starts_cpu)
        where = ", in tensors that held another step before"
        expect_decays(decays, gates, lengths, where, STALE)


def test_steps_that_follow_at_once_do_not_disturb_each_other(kata, accelerator):
    # Three sequences have 14 chunks together, and each step cuts them differently.
    cuts = [(first, end) for end in range(2, 14) for first in range(1, end)]
    batches = [[64 * first, 64 * (end - first), 64 * (14 - end)] for first, end in cuts]
    steps = [arguments(accelerator, lengths, layers=1) for lengths in batches]
    alone = [[decay.cpu() for decay in kata.decays_of_layers(*args)] for args in steps]
    call = lambda step: kata.decays_of_layers(*steps[step])
    several, timeline = in_a_row(accelerator, call, len(steps))
    expect(timeline).no_hazards(why=REUSED)
    for number, decays in enumerate(several):
        value = f"the decays of step {number}, of {len(steps)} queued while a kernel still ran,"
        for decay, right in zip(decays, alone[number], strict=True):
            expect_equal(decay, right, value=value, likely=REUSED)


def test_it_works_where_nothing_can_be_pinned(kata, accelerator):
    args = arguments(accelerator, [5, 64], layers=2)
    with no_pinned_memory(accelerator):
        decays = kata.decays_of_layers(*args)
    expect_decays(decays, args[0], [5, 64], ", where nothing can be pinned")


def test_its_arguments_stay_as_they_are(kata, accelerator):
    gates, starts, starts_cpu = arguments(accelerator, [65, 3], layers=2)
    with left_as_they_were(gates=gates, cu_seqlens=starts, cu_seqlens_cpu=starts_cpu):
        kata.decays_of_layers(gates, starts, starts_cpu)


def common_steps(accelerator):
    batches = [([200, 1, 0, 64], 2), ([5], 1), ([65, 3], 0), ([64 * 30 + 1], 2), ([1] * 9, 3)]
    batches.append(([1, 64, 200, 0], 2))
    steps = []
    for lengths, layers in batches:
        given = arguments(accelerator, lengths, layers)
        right = [right_result("decay_until_end", g.cpu(), lengths) for g in given[0]]
        steps.append(Step(f"decays_of_layers of {layers} layers, {lengths} tokens,", given, right))
    return steps


COMMON = Common(
    make=lambda kata, accelerator: kata.decays_of_layers,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", arguments(accelerator, [65] * n, 2), None),
    stale=STALE,
)
