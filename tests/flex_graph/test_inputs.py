"""The inputs of a step: two uploads, and nothing of an earlier step where it would be read."""

from dataclasses import replace

import numpy as np
import torch

from solutions.flex_graph.steps.inputs import StepInputs
from solutions.flex_graph.steps.limits import Limits
from solutions.flex_graph.steps.workload import Requests
from tests.common import claims
from tests.common.refusals import expect_refused
from tests.instructions import instructions_of

LIMITS = Limits(max_num_seqs=6, max_num_batched_tokens=90, max_model_len=120, num_gpu_blocks=64)
ARRAYS = (
    "token_ids",
    "positions",
    "slot_mapping",
    "query_start_loc",
    "seq_lens",
    "block_table",
)
STEPS = [
    [range(0, 40), range(0, 50)],
    {1: range(50, 51), 3: range(0, 17), 0: range(40, 41), 4: range(0, 1), 5: range(0, 1)},
    [range(41, 120)],
    [range(0)],
    [range(0, 1)] * 6,
    {1: range(51, 60), 0: range(119, 120)},
]


def on_host(inputs):
    return {name: getattr(inputs, name).cpu().numpy() for name in ARRAYS}


def expect_holds(found, batch):
    """Checks that the inputs `found`, read back by on_host, are those of the batch, and padding
    after it."""
    num_tokens, num_reqs = batch.num_tokens, len(batch.query_lens)
    block_size = LIMITS.block_size
    ends = np.cumsum(batch.query_lens)
    rows = [row for row, length in enumerate(batch.query_lens) for _ in range(length)]
    positions = [
        position
        for seq_len, length in zip(batch.seq_lens, batch.query_lens, strict=True)
        for position in range(seq_len - length, seq_len)
    ]
    slots = [
        batch.block_table[row, position // block_size] * block_size + position % block_size
        for row, position in zip(rows, positions, strict=True)
    ]
    expected = {
        "token_ids": (batch.token_ids, 0),
        "positions": (positions, 0),
        "slot_mapping": (slots, -1),
        "query_start_loc": ([0, *ends], num_tokens),
        "seq_lens": (batch.seq_lens, 0),
    }
    for name, (values, behind) in expected.items():
        assert found[name][: len(values)].tolist() == [*values], name
        assert (found[name][len(values) :] == behind).all(), name
    columns = batch.block_table.shape[1]
    assert np.array_equal(found["block_table"][:num_reqs, :columns], batch.block_table)


def test_at_first_there_is_nothing(accelerator):
    inputs = StepInputs(LIMITS, accelerator.device)
    expect_holds(on_host(inputs), Requests(LIMITS).batch([]))
    shapes = {name: tuple(getattr(inputs, name).shape) for name in ARRAYS}
    tokens = dict.fromkeys(ARRAYS[:3], (90,))
    assert shapes == tokens | {"query_start_loc": (7,), "seq_lens": (6,), "block_table": (6, 8)}
    assert {getattr(inputs, name).dtype for name in ARRAYS} == {torch.int32}


def test_every_step_finds_its_batch_and_nothing_else(accelerator):
    inputs, requests = StepInputs(LIMITS, accelerator.device), Requests(LIMITS)
    for scheduled in STEPS * 2:
        batch = requests.batch(scheduled)
        inputs.upload(batch)
        expect_holds(on_host(inputs), batch)


def test_a_table_may_be_narrower_than_the_longest_request_needs(accelerator):
    inputs = StepInputs(LIMITS, accelerator.device)
    batch = Requests(LIMITS).batch([range(0, 20), range(0, 3)])
    batch = replace(batch, block_table=batch.block_table[:, :2])
    inputs.upload(batch)
    expect_holds(on_host(inputs), batch)


def test_requests_that_pad_a_batch_are_as_good_as_none(accelerator):
    inputs, requests = StepInputs(LIMITS, accelerator.device), Requests(LIMITS)
    batch = requests.batch([range(0, 20), range(0, 3)])
    padded = replace(
        batch,
        query_lens=np.append(batch.query_lens, [0, 0]),
        seq_lens=np.append(batch.seq_lens, [0, 0]),
        block_table=np.concatenate([batch.block_table, np.full((2, 8), -1)]),
    )
    inputs.upload(padded)
    expect_holds(on_host(inputs), batch)


def test_addresses_never_change(accelerator):
    inputs, requests = StepInputs(LIMITS, accelerator.device), Requests(LIMITS)
    places = lambda: {name: getattr(inputs, name).data_ptr() for name in ARRAYS}
    at_first = places()
    for scheduled in STEPS:
        inputs.upload(requests.batch(scheduled))
        assert places() == at_first
    for name, address in at_first.items():
        assert address % 64 == 0, name
    assert len({getattr(inputs, name).untyped_storage().data_ptr() for name in ARRAYS}) == 2


def test_model_inputs_and_the_batch_are_views(accelerator):
    inputs = StepInputs(LIMITS, accelerator.device)
    inputs.upload(Requests(LIMITS).batch([range(0, 5)]))
    for view, whole in zip(inputs.model_inputs(8), ARRAYS[:3], strict=True):
        assert view.shape == (8,)
        assert view.data_ptr() == getattr(inputs, whole).data_ptr()
    common = inputs.common(8, 77)
    assert (common.num_actual_tokens, common.max_seq_len) == (8, 77)
    for name in ARRAYS[3:]:
        assert getattr(common, name) is getattr(inputs, name)


def test_an_upload_is_two_pinned_copies_that_nobody_waits_for(accelerator):
    inputs = StepInputs(LIMITS, accelerator.device)
    batch = Requests(LIMITS).batch(STEPS[1])
    call = lambda: inputs.upload(batch)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=2)
    assert counts["h2d_pinned"] == (2 if accelerator.pin_memory else 0)
    assert counts["kernels"] == counts["d2d"] == counts["d2h"] == 0


def test_steps_queued_behind_a_busy_device_find_their_own_batches(accelerator):
    inputs, requests = StepInputs(LIMITS, accelerator.device), Requests(LIMITS)
    batches = [requests.batch(scheduled) for scheduled in STEPS]

    def step(batch):
        inputs.upload(batch)
        return {name: getattr(inputs, name).clone() for name in ARRAYS}

    for found, batch in zip(claims.overlapped(accelerator, step, batches), batches, strict=True):
        expect_holds({name: tensor.cpu().numpy() for name, tensor in found.items()}, batch)


def test_the_arrays_may_be_changed_at_once(accelerator):
    inputs = StepInputs(LIMITS, accelerator.device)
    batch = Requests(LIMITS).batch(STEPS[0])
    as_it_was = replace(batch, block_table=batch.block_table.copy())
    accelerator.sleep(5.0)
    inputs.upload(batch)
    for array in (batch.token_ids, batch.query_lens, batch.seq_lens, batch.block_table):
        array.fill(99)
    as_it_was = replace(as_it_was, token_ids=Requests(LIMITS).batch(STEPS[0]).token_ids)
    lengths = np.array([40, 50], np.int32)
    expect_holds(on_host(inputs), replace(as_it_was, query_lens=lengths, seq_lens=lengths))


def test_a_batch_that_cannot_be_changes_nothing(accelerator):
    inputs = StepInputs(LIMITS, accelerator.device, vocab_size=64)
    batch = Requests(LIMITS).batch(STEPS[0])
    inputs.upload(batch)
    buffers = tuple(getattr(inputs, name) for name in ARRAYS)
    bad_table = batch.block_table.copy()
    bad_table[1, 3] = 64
    for change, message in (
        ({"seq_lens": np.array([40, 121])}, "request 1 has 121 tokens: max_model_len is 120"),
        ({"block_table": bad_table}, "request 1 has block 64 in column 3"),
        ({"token_ids": np.full(90, 64)}, "token 0 of the step has id 64"),
    ):
        bad = replace(batch, **change)
        expect_refused(accelerator, lambda bad=bad: inputs.upload(bad), message, buffers)
    expect_holds(on_host(inputs), batch)


def test_a_graph_reads_what_was_uploaded_last(accelerator):
    inputs, requests = StepInputs(LIMITS, accelerator.device), Requests(LIMITS)
    views = inputs.model_inputs(90)
    copies = [torch.empty_like(view) for view in views]
    copy_all = lambda: [copy.copy_(view) for copy, view in zip(copies, views, strict=True)]
    graph, _ = claims.captured(accelerator, copy_all)
    for scheduled in STEPS:
        batch = requests.batch(scheduled)
        inputs.upload(batch)
        graph.replay()
        found = dict(zip(ARRAYS, (copy.cpu().numpy() for copy in copies), strict=False))
        expect_holds(on_host(inputs) | found, batch)


def test_many_requests_with_many_blocks_are_no_more_work_for_python(accelerator):
    limits = Limits(
        max_num_seqs=256, max_num_batched_tokens=512, max_model_len=16_384, num_gpu_blocks=262_145
    )
    inputs, requests = StepInputs(limits, accelerator.device, vocab_size=64), Requests(limits)
    few = requests.batch([range(0, 2)] * 2)
    many = requests.batch([range(16_382, 16_384)] * 256)

    def work_of(batch):
        """Returns the number of Python instructions of one upload of the batch. Waits for the
        device first, since sim's work depends on earlier work."""
        accelerator.synchronize()
        return instructions_of(lambda: inputs.upload(replace(batch)), within="/solutions/")

    assert work_of(many) - work_of(few) < 254, "an upload loops over 254 requests more"
