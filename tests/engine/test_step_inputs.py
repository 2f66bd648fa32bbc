"""The inputs of a step on the device, including the padding rows that a graph runs too."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

import debubble
from solutions.engine import SamplingParams
from solutions.engine import engine as engine_module
from solutions.engine.requests.new_request import new_request
from solutions.engine.requests.slot_tables import SlotTables
from solutions.engine.requests.step_batch import FROM_HOST, NO_SLOT, ScheduledRequest, StepBatch
from solutions.engine.run.step_inputs import PackedInputs, SeparateInputs
from solutions.engine.sampling.wishes import FIRST, FLOATS, Column, wishes_of

from .setting import add, mixed_requests, small
from .symbolic_device import symbolic_engine

CONFIG = small("spans")
LIMITS = CONFIG.limits
T, S = CONFIG.limits.max_num_batched_tokens, CONFIG.limits.max_num_seqs
VOCABULARY = CONFIG.model.vocab_size
EACH_WAY = pytest.mark.parametrize("inputs_class", [PackedInputs, SeparateInputs])


def row(name, tokens, blocks, slot, positions, samples=True, generated=(), num_sampled=0):
    request = new_request(name, tokens, [], SamplingParams(), CONFIG)
    request.blocks, request.slot = blocks, slot
    request.generated, request.num_sampled = list(generated), num_sampled
    return ScheduledRequest(request, positions.start, positions.stop, samples)


def batch_of(*rows):
    return StepBatch.of(rows, SlotTables.of([row.request for row in rows], CONFIG.limits))


def prefills():
    """Returns a batch of prefills that fills all rows, so that every input is written."""
    rows = [
        row(str(slot), [slot + 1] * 16, [slot + 1], slot, range(16)) for slot in reversed(range(S))
    ]
    return batch_of(*rows)


def decodes():
    """Returns a batch of two decodes; of the second one's last token the host knows the value, of
    the first one's it doesn't."""
    return batch_of(
        row("a", [9] * 17, [3, 5], 2, range(18, 19), generated=[7], num_sampled=2),
        row("b", [8] * 4, [6], 0, range(4, 5), generated=[11], num_sampled=1),
    )


def choose(inputs, tokens):
    """Checks that `inputs` sample these tokens from logits that favour them."""
    logits = torch.zeros(len(tokens), VOCABULARY)
    logits[range(len(tokens)), list(tokens)] = 1.0
    assert inputs.choose(logits.to(inputs.device)).tolist() == list(tokens)


@EACH_WAY
def test_behind_a_batch_are_requests_and_tokens_of_nobody(accelerator, inputs_class):
    inputs = inputs_class(CONFIG.limits, VOCABULARY, accelerator.device)
    inputs.upload(prefills())
    inputs.upload(decodes())
    found = {name: inputs.arrays[name].tolist() for name in inputs.arrays.places}
    assert found["token_ids"] == [0, 11] + [0] * (T - 2)
    assert found["positions"] == [18, 4] + [0] * (T - 2)
    assert found["token_sources"] == [2, FROM_HOST] + [FROM_HOST] * (T - 2)
    assert found["slot_mapping"] == [5 * 16 + 2, 6 * 16 + 4] + [-1] * (T - 2)
    assert found["query_start_loc"] == [0, 1, 2] + [2] * (S - 2)
    assert found["seq_lens"] == [19, 5] + [0] * (S - 2)
    assert found["slots"] == [2, 0] + [NO_SLOT] * (S - 2)
    assert found["logits_rows"] == [0, 1] + [0] * (S - 2)
    assert found["sampling_slots"] == [2, 0] + [S] * (S - 2)
    assert inputs.block_table[:2, :2].tolist() == [[3, 5], [6, 0]]


@EACH_WAY
def test_at_first_nobody_is_there(accelerator, inputs_class):
    """New inputs on the device contain no request: all slots, lengths and sources are empty. A
    graph is warmed up with these inputs."""
    inputs = inputs_class(CONFIG.limits, VOCABULARY, accelerator.device)
    assert {*inputs.slots.tolist()} == {NO_SLOT}
    assert {*inputs.slot_mapping.tolist()} == {-1}
    assert {*inputs.token_sources.tolist()} == {FROM_HOST}
    assert {*inputs.sampling_slots.tolist()} == {S}
    assert not inputs.seq_lens.any()


@EACH_WAY
def test_a_token_that_the_host_doesn_t_know_is_the_one_its_slot_sampled_last(
    accelerator, inputs_class
):
    inputs = inputs_class(CONFIG.limits, VOCABULARY, accelerator.device)
    inputs.upload(prefills())
    choose(inputs, range(30, 30 + S))
    assert inputs.last_tokens.tolist()[:S] == [30 + S - 1 - slot for slot in range(S)]
    inputs.upload(decodes())
    assert inputs.model_inputs(4).token_ids.tolist() == [30 + S - 1 - 2, 11, 0, 0]


@EACH_WAY
def test_rows_that_fill_a_graph_keep_no_token_of_anybody(accelerator, inputs_class):
    inputs = inputs_class(CONFIG.limits, VOCABULARY, accelerator.device)
    inputs.upload(prefills())
    choose(inputs, [5] * S)
    inputs.upload(decodes())
    choose(inputs, [21, 22, 23, 24])
    assert inputs.last_tokens.tolist()[:S] == [22, 5, 21, 5]


def test_wishes_are_the_numbers_of_those_who_wish():
    plain, wished = row("a", [1] * 4, [1], 0, range(4)), row("b", [1] * 9, [2], 1, range(9))
    sampling = SamplingParams(temperature=0.5, top_k=7, seed=2**33 + 5, presence_penalty=0.25)
    wished.request.sampling = sampling
    batch = batch_of(plain, wished)
    nothing, numbers = wishes_of(batch.sampling_numbers, batch.next_positions)
    assert not nothing.any()
    floats = numbers[list(FLOATS)].view(np.float32)
    assert floats.tolist() == [getattr(sampling, name) for name in FLOATS.values()]
    numbers[list(FLOATS)] = 0
    assert {column: numbers[column] for column in Column if numbers[column]} == {
        Column.TOP_K: 7,
        Column.SEED_LOW: 5,
        Column.SEED_HIGH: 2,
        Column.POSITION: 9,
        Column.COUNTED_IN: FIRST,
    }


def test_steps_that_are_queued_together_don_t_share_an_upload(accelerator):
    """Steps that are queued while the device is busy keep their own inputs, even if there are more
    of them than upload buffers in the ring."""
    inputs = PackedInputs(CONFIG.limits, VOCABULARY, accelerator.device)
    batches = [prefills(), decodes(), prefills(), decodes()]
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(2.0)
        found = []
        for batch in batches:
            inputs.upload(batch)
            found.append(inputs.seq_lens.clone())
    assert timeline.hazards == []
    for batch, seq_lens in zip(batches, found, strict=True):
        assert np.array_equal(seq_lens.cpu()[: len(batch.rows)], batch.seq_lens)


def test_a_decode_that_goes_on_is_the_batch_that_is_built_from_nothing(accelerator, monkeypatch):
    """Batches that take arrays of the step before are equal to those of new tables: with images,
    blocks that are added, requests that end and begin, and preemptions."""
    gone_on = []

    def checked(step, tables, num_drafts):
        last, batch = tables.last, StepBatch.of(step, tables)
        new = StepBatch.of(batch.rows, SlotTables.of([each.request for each in step], LIMITS))
        gone_on.append(bool(last) and batch.slots is last.slots)
        assert compared(batch) == compared(new)
        return batch

    monkeypatch.setattr(engine_module, "batch_of", checked)
    engine = symbolic_engine(replace(CONFIG, limits=replace(LIMITS, num_gpu_blocks=12)))
    for number, asked in enumerate(mixed_requests(CONFIG.model)):
        sampling = SamplingParams(max_tokens=9 + number % 30, temperature=number % 2)
        add(engine, replace(asked, sampling=sampling))
    engine.run()
    assert sum(gone_on) > len(gone_on) / 3 and not all(gone_on)
    assert engine.scheduler.num_preemptions


def test_only_a_step_of_one_more_token_of_each_request_takes_the_last_ones_arrays():
    rows = [
        row("a", [9] * 17, [3, 5], 2, range(18, 19), num_sampled=2),
        row("b", [8] * 4, [6], 0, range(4, 5), num_sampled=1),
    ]
    tables = SlotTables.of([each.request for each in rows], LIMITS)

    def next_step(*ends, of=tables, **changes):
        later = zip(rows, ends or (20, 6), strict=True)
        return StepBatch.of(
            [each._replace(start=each.end, end=end, **changes) for each, end in later], of
        )

    def takes_them(*ends, **changes):
        last = StepBatch.of(rows, tables)
        batch, new = (
            next_step(*ends, of=of, **changes)
            for of in (tables, SlotTables.of([each.request for each in rows], LIMITS))
        )
        assert compared(batch) == compared(new)
        return batch.token_sources is last.token_sources

    assert takes_them()
    assert not takes_them(21, 6)
    assert not takes_them(samples=False)
    StepBatch.of(rows, tables)
    rows[1].request.slot = 3
    tables.begin(rows[1].request)
    assert next_step().slots.tolist() == [2, 3]


def compared(batch):
    names = {each.name for each in fields(batch)} | {"positions", "logits_rows", "sampling_slots"}
    values = {name: getattr(batch, name) for name in names | {"query_start_loc", "row_of_token"}}
    used = np.arange(batch.block_table.shape[1]) * LIMITS.block_size < batch.seq_lens[:, None]
    values["block_table"] = batch.block_table * used
    arrays = {
        name: (value.dtype, value.tolist())
        for name, value in values.items()
        if isinstance(value, np.ndarray)
    }
    others = batch.sampling_rows, batch.with_extras, batch.images, batch.is_decode
    return values | arrays, *others, batch.slot_mapping(LIMITS.block_size).tolist()


def test_who_goes_on_comes_before_who_begins():
    rows = [
        row("prompt", [1] * 20, [1, 2], 0, range(20)),
        row("one token", [1], [3], 1, range(1)),
        row("decode", [1] * 3, [4], 2, range(3, 4), generated=[5], num_sampled=1),
        row("part", [1] * 20, [5, 6], 3, range(16, 17), samples=False),
    ]
    batch = batch_of(*rows)
    assert [row.request.request_id for row in batch.rows] == [
        "decode",
        "part",
        "prompt",
        "one token",
    ]
    assert batch.sampling_slots.tolist() == [2, 0, 1]
    assert batch.logits_rows.tolist() == [0, 21, 22]
    assert not batch.is_decode
    assert decodes().is_decode
