"""Tests of the kata `replay_another_batch`."""

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
    no_pinned_memory,
)

SIZES = (4, 16, 8)  # deliberately unsorted
MOST_TOKENS = 40
SLOTS = 64  # slot 0 belongs to a request, too
PADDING = {"token_ids": 0, "positions": 0, "slot_mapping": -1}
TABLE = 20
STEPS = 72
STALE = (
    "A graph reads the address that it read when it was captured. A name that is bound to another "
    "tensor changes nothing there: copy the step's numbers into the array of the capture, before "
    "the replay."
)
READ_BY_NAME = (
    "A step that no graph holds runs without one. The model then reads the first numbers of each "
    "array, which is as long as `sizes` says: as many as the step has tokens."
)
LEFT_BEHIND = (
    "Numbers that a step does not write still hold tokens of an earlier, longer step. The graph "
    "computes them again, and writes their keys to slots that may be another request's by now. "
    "Write each array to its end, with its own padding after the step's numbers: a slot of -1 "
    "means no slot."
)
ZEROS = (
    "0 is not always padding. A token has to have some id and some position, but slot 0 is one "
    "like all others, with a request's key in it. `step` has the padding of each array: -1 for "
    "`slot_mapping`."
)
ONE_UPLOAD = (
    "A step should cost the host one copy and one launch, and no wait. A copy from pageable "
    "memory, and one without non_blocking=True, hold the host until the device has done all that "
    "was queued before. Lay all arrays side by side in one pinned tensor, padding included, and "
    "copy it to where they lie side by side on the device."
)
MOVED = (
    "A graph is captured once, and keeps the addresses that it read then. Make all memory on the "
    "device in `__init__`, and let `upload` write there. `inputs[name]` returns a view of it, in "
    "this step and in all other steps."
)
WHERE = (
    "`inputs[name]` has as many numbers as `sizes` says. The step's own come first, in the array "
    "of their name and in no other."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. A pinned tensor that the next step writes "
    "to again may bring the rows of the wrong step. Take a fresh one in each, since PyTorch keeps "
    "its memory until the copy is done, or a few in turn, each once its copy is done."
)


class Model:
    """A model that writes each token's key to its slot. It returns each token's key, and the key in
    the slot before its own."""

    def __init__(self, device):
        # Tokens without a slot write to the last one.
        self.keys = torch.zeros(SLOTS + 1, dtype=torch.int64, device=device)
        self.calls = 0

    def __call__(self, token_ids, positions, slots):
        self.calls += 1
        keys = 100 * token_ids.long() + positions
        places = torch.where(slots < 0, SLOTS, slots.long())
        self.keys.index_copy_(0, places, keys)
        return torch.stack([keys, self.keys[(places - 1).clamp(min=0)]], dim=1)


class Runner:
    """A runner for steps of up to MOST_TOKENS tokens: it replays the smallest graph that holds a
    step, or runs the model without one."""

    def __init__(self, kata, accelerator):
        self.model, self.accelerator = Model(accelerator.device), accelerator
        sizes = dict.fromkeys(PADDING, MOST_TOKENS) | {"block_table": TABLE}
        self.inputs = kata.PersistentArrays(sizes, accelerator.device)
        for name, padding in PADDING.items():
            self.inputs[name].fill_(padding)
        # Captured tensors must live as long as the graph.
        self.kept = [self.inputs[name] for name in PADDING]
        self.captured = {size: self.capture(size) for size in sorted(SIZES, reverse=True)}

    def capture(self, size):
        """Captures a graph. Returns it with the output of its replays."""
        self.forward(size)
        graph = self.accelerator.graph()
        with graph.capture():
            output = self.forward(size)
        return graph, output

    def forward(self, num_tokens):
        return self.model(*(self.inputs[name][:num_tokens] for name in PADDING))

    def step(self, rows):
        """Runs a step. Returns [num_tokens, 2] on the device, valid until the next step overwrites
        it."""
        arrays = arrays_of(rows)
        self.inputs.upload(arrays)
        for values, _ in arrays.values():
            values.fill(SLOTS - 1)  # The caller may change its arrays at once.
        size = size_for(len(rows))
        if size is None:
            return self.forward(len(rows))
        graph, output = self.captured[size]
        graph.replay()
        return output[: len(rows)]


def size_for(num_tokens):
    return min((size for size in SIZES if size >= num_tokens), default=None)


def arrays_of(rows):
    """Returns the arguments of `upload`: columns of ids, positions and slots, and one request's
    table."""
    columns = dict(zip(PADDING, rows.T, strict=True))
    arrays = {name: (column.copy(), PADDING[name]) for name, column in columns.items()}
    return arrays | {"block_table": (np.arange(1, 1 + len(rows) % 5, dtype=np.int32), None)}


def rows_of(num_tokens, first_slot=1):
    """Returns [num_tokens, 3] int32: tokens in adjacent slots, with values that no other slots
    have."""
    i = np.arange(first_slot, first_slot + num_tokens, dtype=np.int32)
    return np.stack([7 * i, 3 * i + first_slot, i], axis=1)


def tokens(number):
    return "1 token" if number == 1 else f"{number} tokens"


def expect_steps(kata, accelerator, sizes, likely=STALE):
    """Checks that each step returns what the model computes from its rows on the CPU."""
    runner, model = Runner(kata, accelerator), Model("cpu")
    for number, num_tokens in enumerate(sizes):
        rows = rows_of(num_tokens, first_slot=1 + sum(sizes[:number]))
        right = model(*(torch.from_numpy(column.copy()) for column in rows.T))
        after = f" after steps of {sizes[:number]}" if number else ""
        value = f"what the model computes in a step of {tokens(num_tokens)}{after}"
        expect_equal(runner.step(rows), right, value=value, likely=likely)


@pytest.mark.parametrize("num_tokens", [4, 3, 1, 8, 5, 16, 11])
def test_a_step_computes_its_own_rows(kata, accelerator, num_tokens):
    expect_steps(kata, accelerator, [num_tokens])


@pytest.mark.parametrize("sizes", [[4, 3, 4], [1, 4, 2], [16, 9, 3], [7, 8, 40, 6]], ids=str)
def test_steps_of_different_sizes_follow_each_other(kata, accelerator, sizes):
    expect_steps(kata, accelerator, sizes)


@pytest.mark.parametrize("num_tokens", [17, 40])
def test_more_tokens_than_a_graph_holds_run_without_one(kata, accelerator, num_tokens):
    expect_steps(kata, accelerator, [num_tokens], READ_BY_NAME)


def likely_cause(num_tokens):
    """Returns a function that tells why an array differs from a step of `num_tokens` tokens and
    padding."""

    def cause(found, right):
        if found.shape != right.shape or not torch.equal(
            found.cpu()[:num_tokens], right[:num_tokens]
        ):
            return WHERE
        return LEFT_BEHIND if found[num_tokens:].any() else ZEROS

    return cause


@pytest.mark.parametrize(("num_tokens", "size"), [(1, 4), (4, 4), (5, 8), (9, 16)])
def test_each_array_is_padded_as_far_as_a_graph_reads(kata, accelerator, num_tokens, size):
    """A graph reads the whole array, also in a small step after one that filled it."""
    runner = Runner(kata, accelerator)
    runner.step(rows_of(MOST_TOKENS, first_slot=20))
    rows = rows_of(num_tokens)
    runner.step(rows)
    for column, (name, padding) in enumerate(PADDING.items()):
        right = np.full(size, padding, np.int32)
        right[:num_tokens] = rows[:, column]
        value = f"`inputs['{name}'][:{size}]` in a step of {tokens(num_tokens)}"
        found = runner.inputs[name][:size]
        expect_equal(found, torch.from_numpy(right), value=value, likely=likely_cause(num_tokens))


def test_padding_writes_no_keys(kata, accelerator):
    runner = Runner(kata, accelerator)
    runner.step(rows_of(4, first_slot=10))
    # The request of these slots is done, and other requests use them now.
    runner.model.keys.fill_(-5)
    runner.step(rows_of(1, first_slot=30))
    written = (runner.model.keys[:SLOTS].cpu() != -5).nonzero().flatten()
    beside = [slot for slot in written.tolist() if slot != 30]
    if beside:
        of_zeros = beside == [0]
        whose = "of another request" if of_zeros else "those of a step of 4 tokens before it"
        raise KataFailure(
            Diagnosis(
                expected="a step of 1 token, whose slot is 30, to write to no other slot",
                did=f"wrote keys to the slots {beside} too, {whose}",
                why=ZEROS if of_zeros else LEFT_BEHIND,
            )
        )


def test_a_step_is_one_upload_and_one_launch(kata, accelerator):
    runner = Runner(kata, accelerator)
    runner.step(rows_of(3))
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        runner.step(rows_of(3, first_slot=9))
    expect(timeline).counts(host_syncs=0, graph_launches=1, why=ONE_UPLOAD)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) == 1,
        expected="1 upload",
        did=f"made {len(uploads) or 'no'} uploads",
        events=uploads,
        why=ONE_UPLOAD,
    )
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pinned=1, h2d_pageable=0, why=ONE_UPLOAD)


def test_addresses_are_those_of_the_capture(kata, accelerator):
    runner = Runner(kata, accelerator)
    at_first = {name: runner.inputs[name].data_ptr() for name in PADDING}
    for num_tokens in (2, 4, 6, 16, 40):
        runner.step(rows_of(num_tokens))
        for name, address in at_first.items():
            if runner.inputs[name].data_ptr() != address:
                raise KataFailure(
                    Diagnosis(
                        expected=f"`inputs['{name}']` to lie in a step of {tokens(num_tokens)} "
                        "where it lay at the capture",
                        did="put it at another address",
                        why=MOVED,
                    )
                )


@pytest.mark.parametrize("order", [("table", "lengths"), ("lengths", "table")], ids=" then ".join)
def test_an_array_without_padding_has_the_step_s_numbers(kata, accelerator, order):
    sizes = {"table": TABLE, "lengths": 3}
    inputs = kata.PersistentArrays({name: sizes[name] for name in order}, accelerator.device)
    for values in ([5, 2, 9], [4], list(range(TABLE)), []):
        lengths = np.array([len(values), 7], np.int32)
        inputs.upload({"table": (np.array(values, np.int32), None), "lengths": (lengths, -1)})
        where = f"with {len(values)} numbers of `table`, which is not padded"
        table = torch.tensor(values, dtype=torch.int32)
        value = f"`inputs['table'][:{len(values)}]` of a step {where},"
        expect_equal(inputs["table"][: len(values)], table, value=value, likely=WHERE)
        right = torch.tensor([len(values), 7, -1], dtype=torch.int32)
        value = f"`inputs['lengths']` of a step {where},"
        expect_equal(inputs["lengths"][:3], right, value=value, likely=WHERE)


def test_steps_in_flight_do_not_disturb_each_other(kata, accelerator):
    """Runs more steps than a ring of pinned buffers is likely to hold."""
    batches = [rows_of(1 + step % 2, first_slot=1 + step % (SLOTS - 2)) for step in range(STEPS)]
    runner = Runner(kata, accelerator)
    alone = [runner.step(rows).cpu() for rows in batches]
    runner = Runner(kata, accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        # Lasts until a real host has queued everything; the modelled host needs less.
        accelerator.sleep(2.0 if accelerator.modelled else 50.0)
        outputs = [runner.step(rows).clone() for rows in batches]
    expect(timeline).no_hazards(why=REUSED)
    for number, (output, right) in enumerate(zip(outputs, alone, strict=True)):
        value = f"the output of step {number}, of {STEPS} queued while a kernel was still running,"
        expect_equal(output, right, value=value, likely=REUSED)


def test_it_works_where_nothing_can_be_pinned(kata, accelerator):
    with no_pinned_memory(accelerator):
        inputs = kata.PersistentArrays({"lengths": 3}, accelerator.device)
        inputs.upload({"lengths": (np.array([5, 7, 2], np.int32), None)})
        right = torch.tensor([5, 7, 2], dtype=torch.int32)
        value = "`inputs['lengths']` where nothing can be pinned"
        expect_equal(inputs["lengths"][:3], right, value=value, likely=WHERE)


FILLS = {"zeros": 0, "slots": -1, "large": 2**30, "free": None}


def common_steps(accelerator):
    def step(name, *lengths, first=1, dtype=np.int32):
        given, right = {}, []
        for (array, fill), length in zip(FILLS.items(), lengths, strict=True):
            values = np.arange(first, first + length).astype(dtype)
            given[array] = (values, fill)
            whole = torch.full((8,), 0 if fill is None else fill, dtype=torch.int32)
            whole[:length] = torch.from_numpy(values.astype(np.int32))
            right.append(whole[:length] if fill is None else whole)
        return Step(f"upload of {name}", (given,), right)

    return [
        step("8 numbers each", 8, 8, 8, 8, first=100),
        step("3 numbers each", 3, 3, 3, 3),
        step("3 other numbers each", 3, 3, 3, 3, first=40),
        step("other lengths", 0, 8, 1, 0, first=2**30),
        step("no numbers", 0, 0, 0, 0),
        step("numbers of int64", 5, 2, 8, 4, dtype=np.int64),
        step("1 number each", 1, 1, 1, 1, first=-9),
    ]


def uploading(kata, accelerator):
    """Returns a function that uploads a step, and returns the arrays as far as they are defined."""
    arrays = kata.PersistentArrays(dict.fromkeys(FILLS, 8), accelerator.device)

    def upload(given):
        free = len(given["free"][0])
        arrays.upload(given)
        return [arrays[name][: free if name == "free" else 8] for name in FILLS]

    return upload


COMMON = Common(make=uploading, steps=common_steps, stale=LEFT_BEHIND)


@pytest.mark.parametrize("steps_in_flight", [1, 3])
def test_as_many_steps_as_are_in_flight_wait_for_nothing(kata, accelerator, steps_in_flight):
    new = lambda: kata.PersistentArrays({"zeros": 8}, accelerator.device, steps_in_flight)
    step = {"zeros": (np.arange(3, dtype=np.int32), 0)}
    new().upload(step)  # loads what a first upload loads
    arrays = new()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        for _ in range(steps_in_flight):
            arrays.upload(step)
    expect(timeline).counts(host_syncs=0, why=IN_FLIGHT)


IN_FLIGHT = (
    "`steps_in_flight` steps may be queued before `upload` waits. So there is a pinned buffer for "
    "each of them, or new pinned memory in each step, and only a buffer whose copy is not done is "
    "waited for."
)
