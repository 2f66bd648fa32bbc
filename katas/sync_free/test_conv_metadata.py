"""Tests of the kata `conv_metadata`."""

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
)

CHUNK_TOKENS = 8  # as in the kata
LAYERS = 48
WHOSE = (
    "A sequence of 8 tokens is one chunk, one of 9 tokens is two, and one without tokens is none. "
    "An empty sequence keeps its number: the sequence after it is one further."
)
ASKED = (
    "Reading `query_start_loc` waits until the device has done all that was queued before, and an "
    "upload from pageable memory waits once more. The host has the same numbers in "
    "`query_start_loc_cpu`. Upload from pinned memory, with non_blocking=True."
)
PER_LAYER = (
    "All layers of a step convolve the same sequences, so that one ConvMetadata serves them all. "
    "Make it before the loop over the layers."
)
TOGETHER = (
    "Both arrays are known at the same time, and are of the same length. So they can travel in one "
    "tensor, and be cut apart on the device: `a, b = both.unbind()` copies nothing."
)
STALE = (
    "Did you keep the metadata of an earlier step? The engine writes each step's starts into the "
    "same tensors, so the same tensor does not mean the same sequences. Plan again in each step: "
    "once is cheap."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that a later step writes "
    "to again may bring the chunks of the wrong step. Take fresh pinned memory in each."
)


class Layers:
    """Layers that add one to the tokens, and note the metadata that they get."""

    def __init__(self, count=LAYERS):
        self.layers = [self.run] * count
        self.given = []

    def run(self, tokens, metadata):
        self.given.append(metadata)
        return tokens + 1


def starts_of(lengths):
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    return torch.tensor(starts, dtype=torch.int32)


def arguments(accelerator, lengths):
    starts = starts_of(lengths)
    tokens = torch.zeros(sum(lengths), 2, device=accelerator.device)
    return tokens, starts.to(accelerator.device), starts


def expect_chunks(metadata, lengths, likely, where=""):
    chunks = [
        (sequence, offset)
        for sequence, length in enumerate(lengths)
        for offset in range(0, length, CHUNK_TOKENS)
    ]
    for place, name in enumerate(("batch_of_chunk", "chunk_offset")):
        right = torch.tensor([chunk[place] for chunk in chunks], dtype=torch.int32)
        value = f"`{name}` of sequences of {lengths} tokens{where}"
        expect_equal(getattr(metadata, name), right, value=value, likely=likely, contiguous=True)


@pytest.mark.parametrize(
    "lengths", [[5], [8], [9], [20, 3], [0, 3, 0, 17], [1] * 6, [16, 0], [0, 0]], ids=str
)
def test_each_layer_is_told_which_chunk_is_whose(kata, accelerator, lengths):
    layers = Layers(3)
    tokens, starts, starts_cpu = arguments(accelerator, lengths)
    with left_as_they_were(query_start_loc=starts, query_start_loc_cpu=starts_cpu):
        kata.convolve_layers(layers.layers, tokens, starts, starts_cpu)
    expect_equal(len(layers.given), 3, value="the number of layers that were called, of 3,")
    for metadata in layers.given:
        expect_chunks(metadata, lengths, WHOSE)


def test_each_layer_goes_on_from_the_last_one(kata, accelerator):
    returned = kata.convolve_layers(Layers(3).layers, *arguments(accelerator, [2, 1]))
    call = "convolve_layers(3 layers that add 1, 3 tokens of zeros, ...)"
    expect_equal(returned, torch.full((3, 2), 3.0), call=call)


def record_step(kata, accelerator):
    """Records a step of 48 layers, queued after a kernel of 50 microseconds."""
    args = arguments(accelerator, [20, 1, 3])
    kata.convolve_layers(Layers().layers, *args)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.convolve_layers(Layers().layers, *args)
    return timeline


def test_the_device_is_not_asked(kata, accelerator):
    timeline = record_step(kata, accelerator)
    expect(timeline).counts(host_syncs=0, d2h=0, why=ASKED)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=ASKED)


def test_all_layers_share_one_upload(kata, accelerator):
    timeline = record_step(kata, accelerator)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) <= 1,
        expected=f"1 upload for {LAYERS} layers",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=PER_LAYER if len(uploads) >= LAYERS else TOGETHER,
    )


def test_each_step_has_its_own_sequences(kata, accelerator):
    tokens, starts, starts_cpu = arguments(accelerator, [4, 16])
    for lengths in ([4, 16], [12, 8], [20, 0]):
        starts_cpu.copy_(starts_of(lengths))
        starts.copy_(starts_cpu)
        layers = Layers(2)
        kata.convolve_layers(layers.layers, tokens, starts, starts_cpu)
        for metadata in layers.given:
            expect_chunks(metadata, lengths, STALE, ", in tensors that held another step before,")


def test_steps_that_follow_at_once_do_not_disturb_each_other(kata, accelerator):
    batches = [[3 * step, 400 - step] for step in range(100)]
    steps = [arguments(accelerator, lengths) for lengths in batches]

    def run(number):
        layers = Layers(1)
        kata.convolve_layers(layers.layers, *steps[number])
        return layers.given[0]

    several, timeline = in_a_row(accelerator, run)
    expect(timeline).no_hazards(why=REUSED)
    for number, (metadata, lengths) in enumerate(zip(several, batches, strict=True)):
        where = f", step {number} of {len(several)} queued while a kernel was still running,"
        expect_chunks(metadata, lengths, REUSED, where)


def common_steps(accelerator):
    def step(lengths):
        chunks = [(s, o) for s, n in enumerate(lengths) for o in range(0, n, CHUNK_TOKENS)]
        tables = [torch.tensor([c[i] for c in chunks], dtype=torch.int32) for i in (0, 1)]
        tokens, on_device, on_host = arguments(accelerator, lengths)
        right = (tokens.cpu() + 2, *tables, len(lengths), sum(lengths))
        call = f"convolve_layers of 2 layers and sequences of {lengths} tokens"
        return Step(call, (tokens, on_device, on_host), right)

    return [step(lengths) for lengths in ([20, 3, 0, 17], [1], [], [40_000, 9], [0, 0], [8, 16])]


def metadata_of_layers(kata, accelerator):
    """Returns a function that returns the tokens, and the metadata that the layers got."""

    def run(tokens, on_device, on_host):
        layers = Layers(2)
        tokens = kata.convolve_layers(layers.layers, tokens, on_device, on_host)
        given = layers.given[-1]
        return (
            tokens,
            given.batch_of_chunk,
            given.chunk_offset,
            given.num_seqs,
            given.num_tokens,
        )

    return run


COMMON = Common(
    make=metadata_of_layers,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", arguments(accelerator, [9] * n), None),
    stale=STALE,
)
