"""Tests of the kata `load_beside`."""

import torch

import debubble
from debubble.exercises import Common, Step, closed_gate, expect, expect_equal

BLOCKS = 64, 256
BESIDE = (
    "The link has an engine of its own, so a copy can run while the device computes. A copy that "
    "waits for the kernels queued before it runs when they are done, and the kernels that need it "
    "wait in turn: a bubble for every load."
)
REUSED = (
    "When a tensor is dropped, PyTorch gives its memory to the next tensor of the stream that it "
    "was made on, at once. That is safe while the same stream writes to it and reads it. Here a "
    "copy of one stream writes to the memory, and kernels of another stream may still read it. "
    "Make the tensor on the stream of the copies, and tell PyTorch by "
    "`tensor.record_stream(stream)` that the stream of the kernels uses it too."
)
ITS_OWN_STREAM = (
    "PyTorch knows the stream that a tensor was made on, and waits for that one alone. The kernels "
    "that read the tensor are on the stream that was current in the call: take it outside of `with "
    "copying`, by `current().current_stream()`, and pass this stream to `record_stream`."
)
TOO_EARLY = (
    "The kernels run on another stream than the copy, and do not wait for it by themselves. Record "
    "an event after the copy, and let the current stream wait for it."
)
HOST = (
    "An event or a stream can be waited for by another stream: `wait_event`, `wait_stream`. Then "
    "the device waits, and the host goes on to queue the next steps. A copy without "
    "`non_blocking=True` holds the host, too."
)
PINNED = "The blocks lie in pinned memory already: `non_blocking=True` lets the host go on."


def blocks_of(accelerator, number, rows=BLOCKS[0]):
    """Returns blocks in pinned host memory, float32 [rows, 256], whose values differ by number."""
    blocks = torch.full((rows, BLOCKS[1]), float(number), pin_memory=accelerator.pin_memory)
    return blocks


def test_the_blocks_arrive(kata, accelerator):
    blocks = blocks_of(accelerator, 3)
    loaded = kata.load_beside(blocks, accelerator.stream())
    expect_equal(loaded, blocks, call="load_beside(blocks, copying)", likely=TOO_EARLY)


def test_kernels_wait_for_the_copy(kata, accelerator):
    copying, blocks = accelerator.stream(), blocks_of(accelerator, 5)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        with copying:
            accelerator.sleep(2.0 if accelerator.modelled else 20.0)
        doubled = kata.load_beside(blocks, copying) * 2
    expect(timeline).no_hazards(why=TOO_EARLY)
    value = "twice what load_beside(blocks, copying) returns, where `copying` is busy,"
    expect_equal(doubled, blocks * 2, value=value, likely=TOO_EARLY)


def record_loads(kata, accelerator, loads=3):
    """Records loads whose results are used by a kernel, after a long one, and dropped at once.
    Returns (what the kernels made of them, the timeline)."""
    copying, sources = accelerator.stream(), [blocks_of(accelerator, n) for n in range(loads)]
    kata.load_beside(sources[0], copying)
    accelerator.synchronize()
    used = []
    with debubble.record(accelerator) as timeline:
        for blocks in sources:
            loaded = kata.load_beside(blocks, copying)
            accelerator.sleep(2.0 if accelerator.modelled else 20.0)
            used.append(loaded + 0.5)
            del loaded
    return used, timeline


def streams_recorded(accelerator, monkeypatch):
    """Returns a list that gets the stream of each later call of `record_stream`."""
    kind, streams = type(torch.empty(0, device=accelerator.device)), []
    record_stream = kind.record_stream

    def noted(tensor, stream):
        streams.append(stream)
        record_stream(tensor, stream)

    monkeypatch.setattr(kind, "record_stream", noted)
    return streams


def expect_no_reuse(timeline, streams):
    """Checks that no load got the memory of a load that a kernel may still read."""
    hazards = timeline.hazards
    expect(timeline).that(
        not (hazards and hazards[0].kind == "memory_reused"),
        expected="no load to get the memory of a dropped load while a kernel may still read it",
        did="calls `record_stream`, but not for the stream of the kernels, and the next load gets "
        "the memory too early"
        if streams
        else "calls no `record_stream`, and the next load gets the memory too early",
        events=[event for event in timeline.events if event.on_device],
        quoted=(),
        why=ITS_OWN_STREAM if streams else REUSED,
    )


def test_the_memory_of_a_dropped_load_waits_for_its_kernels(kata, accelerator, monkeypatch):
    streams = streams_recorded(accelerator, monkeypatch)
    used, timeline = record_loads(kata, accelerator)
    expect_no_reuse(timeline, streams)
    expect(timeline).no_hazards(why=REUSED)
    for number, result in enumerate(used):
        value = f"what a kernel made of load {number}, which was dropped before the kernel ran,"
        expect_equal(result, blocks_of(accelerator, number + 0.5), value=value, likely=REUSED)


def test_a_load_runs_beside_the_kernels_queued_before_it(kata, accelerator):
    _, timeline = record_loads(kata, accelerator, loads=2)
    copies = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    sleep = next(event for event in timeline.events if event.kind == "kernel")
    expect(timeline).that(
        len(copies) == 2 and copies[1].start < sleep.end,
        expected="the second load to start before the kernel is done that was queued before it",
        did="lets it start only then" if len(copies) == 2 else f"made {len(copies)} copies",
        events=[*copies[1:], sleep],
        quoted=copies[1:],
        why=BESIDE,
    )


def test_the_host_waits_for_nothing(kata, accelerator):
    copying, blocks = accelerator.stream(), blocks_of(accelerator, 1)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, closed_gate(accelerator, modelled_ms=5.0):
        kata.load_beside(blocks, copying)
    expect(timeline).counts(host_syncs=0, why=HOST)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pinned=1, h2d_pageable=0, why=PINNED)


def common_steps(accelerator):
    def step(rows, number):
        blocks = blocks_of(accelerator, number, rows)
        return Step(f"load_beside({rows} rows of {number}, copying)", (blocks,), blocks.clone())

    halves = torch.ones(3, 5, dtype=torch.bfloat16, pin_memory=accelerator.pin_memory)
    other = Step("load_beside(3 rows of bfloat16, copying)", (halves,), halves.clone())
    return [step(64, 1), step(3, 2), other, step(0, 3), step(1, 2**20), step(3, 7)]


def loading(kata, accelerator):
    copying = accelerator.stream()
    return lambda blocks: kata.load_beside(blocks, copying)


COMMON = Common(
    make=loading,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (blocks_of(accelerator, 1, n),), None),
    likely=TOO_EARLY,
)
