"""Races that a GPU shows sometimes, and sim every time, with the lines of both accesses."""

from contextlib import nullcontext

import pytest
import torch
import triton
import triton.language as tl

import debubble
from debubble.accelerator import launch
from debubble.sim.memory import inflight
from tests.sim.in_flight import expect_race, in_flight, kinds

pytestmark = pytest.mark.sim


@pytest.fixture
def pinned():
    return torch.zeros(4, pin_memory=True)


def test_a_reused_pinned_buffer_brings_the_last_value_to_every_copy(accelerator, pinned):
    results = []
    with in_flight(accelerator) as timeline:
        for value in range(3):
            pinned.fill_(value)  # the write
            results.append(pinned.to(accelerator.device, non_blocking=True) * 10)  # the copy
        assert [result[0].item() for result in results] == [20, 20, 20]
    assert kinds(timeline) == ["overwritten_in_flight"] * 2
    assert "# the copy" in timeline.hazards[0].first.text
    assert "# the write" in timeline.hazards[0].second.text


def test_the_same_bytes_written_again_are_no_race(accelerator, pinned):
    with in_flight(accelerator) as timeline:
        pinned.to(accelerator.device, non_blocking=True)
        pinned.fill_(0)
    assert timeline.hazards == []


def test_nan_in_a_pinned_buffer_is_no_race(accelerator):
    pinned = torch.full((4,), float("nan"), pin_memory=True)
    with in_flight(accelerator) as timeline:
        pinned.to(accelerator.device, non_blocking=True)
    assert timeline.hazards == []


def test_a_fresh_pinned_buffer_may_be_dropped_at_once(accelerator):
    with in_flight(accelerator) as timeline:
        copies = [
            torch.full((4,), float(n), pin_memory=True).to(accelerator.device, non_blocking=True)
            for n in range(8)
        ]
        assert [copy[0].item() for copy in copies] == list(range(8))
    assert timeline.hazards == []


def test_in_place_work_behind_the_copy_is_done_over_with_the_new_bytes(accelerator, pinned):
    total = torch.zeros(4, device=accelerator.device)
    with in_flight(accelerator):
        total.add_(1)
        total.add_(pinned.to(accelerator.device, non_blocking=True))
        total.mul_(2)
        pinned.fill_(3)
        assert total.tolist() == [8.0] * 4


@triton.jit
def doubling_kernel(x):
    at = x + tl.arange(0, 8)
    tl.store(at, tl.load(at) * 2)


AFTER_A_COPY = {
    "nothing": lambda x, other: None,
    "reading": lambda x, other: x * 2,
    "writing": lambda x, other: x.add_(1),
    "writing a part": lambda x, other: x[0, 1:3].fill_(7),
    "out=": lambda x, other: torch.add(x, 1, out=x),
    "another copy": lambda x, other: x.copy_(other, non_blocking=True),
    "a copy into a part": lambda x, other: x[0].copy_(other[0], non_blocking=True),
    "a kernel": lambda x, other: launch(doubling_kernel, (1,), x),
    "a kernel called": lambda x, other: doubling_kernel[1,](x),
    "transposing": lambda x, other: (x + 1, x.t_())[0],
    "resizing": lambda x, other: (x + 1, x.resize_(64).fill_(1))[0],
}
"""Functions that work on a copy's target `x` while the copy is in flight; `other` is a pinned
tensor."""


@pytest.mark.parametrize("overwrite", [None, slice(1), slice(8)], ids=["none", "one", "all"])
@pytest.mark.parametrize("work", AFTER_A_COPY)
def test_a_large_upload_is_overwritten_as_a_small_one_is(accelerator, monkeypatch, work, overwrite):
    """Large uploads, whose targets borrow the source's bytes at first, have the same races and
    values as small ones, which are copied."""
    found = []
    for lent_from, earlier in [(2**40, False), (0, False), (2**40, True), (0, True)]:
        monkeypatch.setattr(inflight, "LENT_FROM", lent_from)
        staged, other = (torch.full((2, 4), n, pin_memory=True) for n in (3.0, 5.0))
        with in_flight(accelerator, 1) as timeline:
            if earlier:
                other.to(accelerator.device, non_blocking=True).add_(1)
            x = staged.to(accelerator.device, non_blocking=True)  # here
            y = AFTER_A_COPY[work](x, other)
            staged.view(-1)[overwrite or slice(8)] = 3.0 if overwrite is None else 4.0
        values = x.tolist(), y is not None and y.tolist()
        found.append(([hazard.first.text for hazard in timeline.hazards], values))
    assert found == found[:1] * 4
    assert [text.endswith("# here") for text in found[0][0]] == [True] * (overwrite is not None)


def test_memory_that_is_freed_under_a_large_upload_is_read_no_more(accelerator):
    staged = torch.ones(4 << 20, dtype=torch.uint8, pin_memory=True)
    accelerator.sleep(1)
    x = staged.to(accelerator.device, non_blocking=True)
    x.untyped_storage().resize_(0)
    staged.fill_(2)
    accelerator.synchronize()


def test_random_numbers_are_not_drawn_again(accelerator, pinned):
    with in_flight(accelerator):
        pinned.to(accelerator.device, non_blocking=True)
        noise = torch.randn(4, device=accelerator.device)
        before = noise.data_on_cpu.clone()
        pinned.fill_(1)
    assert noise.tolist() == before.tolist()


def test_a_result_read_before_its_copy_is_done_is_poison(accelerator):
    x = torch.ones(3, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        host = x.to("cpu", non_blocking=True)  # the copy
        assert host.isnan().all()  # the read
        accelerator.synchronize()
        assert host.tolist() == [1.0] * 3
    (hazard,) = {(h.kind, h.first.text, h.second.text) for h in timeline.hazards}
    assert hazard[0] == "read_before_sync"
    assert "# the copy" in hazard[1]
    assert "# the read" in hazard[2]


def test_what_went_by_a_pageable_copy_is_safe_from_the_host(accelerator, pinned):
    pageable = torch.zeros(4)
    with in_flight(accelerator):
        early = pinned.to(accelerator.device, non_blocking=True)
        safe = pageable.to(accelerator.device, non_blocking=True)
        pinned.fill_(1)
        pageable.fill_(1)
        assert early.tolist() == [1.0] * 4
        assert safe.tolist() == [0.0] * 4


def test_a_download_behind_a_race_brings_the_new_bytes(accelerator, pinned):
    with in_flight(accelerator):
        host = (pinned.to(accelerator.device, non_blocking=True) * 2).to("cpu", non_blocking=True)
        pinned.fill_(4)
        accelerator.synchronize()
        assert host.tolist() == [8.0] * 4


def test_a_graph_replayed_behind_a_race_sees_the_new_bytes(accelerator, pinned):
    x = torch.zeros(4, device=accelerator.device)
    total = torch.zeros(4, device=accelerator.device)
    graph = accelerator.graph()
    with graph.capture():
        doubled = x * 2
        total.add_(doubled)
    with in_flight(accelerator) as timeline:
        x.copy_(pinned, non_blocking=True)
        graph.replay()
        pinned.fill_(3)
        assert doubled.tolist() == [6.0] * 4
        assert total.tolist() == [6.0] * 4
    assert kinds(timeline) == ["overwritten_in_flight"]


# Backward passes.


def test_gradients_are_computed_on_the_streams_of_their_forwards(accelerator):
    side = accelerator.stream()
    x = torch.ones(3, device=accelerator.device, requires_grad=True)
    side.wait_stream(accelerator.current_stream())
    with debubble.record(accelerator) as timeline:
        y = x * 2
        side.wait_stream(accelerator.current_stream())
        with side:
            z = y.exp()
        (z + 1).sum().backward()  # the pass
        x.grad + 1
    assert [hazard.first.text for hazard in timeline.hazards] == ["z = y.exp()"]
    lanes = [
        event.lane
        for event in timeline.events
        if event.kind == "kernel" and event.source and "# the pass" in event.source.text
    ]
    assert lanes[-2:] == ["stream 1", "stream 0"]  # of exp, of mul


def test_a_stream_in_a_hook_is_left_again(accelerator):
    side = accelerator.stream()
    x = torch.ones(3, device=accelerator.device, requires_grad=True)

    def on_the_side(grad):
        side.wait_stream(accelerator.current_stream())
        with side:
            return grad * 2

    y = x * 2
    y.register_hook(on_the_side)
    with debubble.record(accelerator) as timeline:
        y.sum().backward()
        (x * 3).sum().backward()
    kernels = [event for event in timeline.events if event.kind == "kernel"]
    assert {event.lane for event in kernels[-3:]} == {"stream 0"}


# Kernels, which don't declare what they access.


@triton.jit
def add_one(source, target, size, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < size
    tl.store(target + offsets, tl.load(source + offsets, mask=inside) + 1, mask=inside)


@pytest.mark.parametrize("shared", ["read", "written"])
def test_two_kernels_on_one_tensor_race_if_one_of_them_writes_it(accelerator, shared):
    x, y, z = (torch.ones(4, device=accelerator.device) for _ in range(3))
    targets = (y, z) if shared == "read" else (y, y)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        for target in targets:
            with accelerator.stream():
                launch(add_one, (1,), x, target.fill_(7), 4, BLOCK=4)
    assert len(timeline.hazards) == (0 if shared == "read" else 2)  # of fill_ and the kernel


def test_a_kernel_on_a_cache_accuses_no_work_on_a_part_of_it(accelerator):
    side, cache = accelerator.stream(), torch.zeros(8, 4, device=accelerator.device)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        launch(add_one, (1,), cache, cache, 4, BLOCK=4)
        with side:
            cache[7].fill_(1)
    assert timeline.hazards == []
    with debubble.record(accelerator) as timeline:
        launch(add_one, (1,), cache, cache, 4, BLOCK=4)
        with side:
            cache.fill_(1)
    assert len(timeline.hazards) == 1


# Memory that the allocator reuses.


def recorded_event(accelerator):
    event = accelerator.event()
    event.record()
    return event


def used_on_a_side_stream(accelerator, side, numbers=1000):
    """Makes a tensor on the default stream, reads it on the side stream, and drops the last
    reference to it. Returns the result."""
    dropped = torch.ones(numbers, device=accelerator.device)
    side.wait_event(recorded_event(accelerator))
    with side:
        accelerator.sleep(5)
        return dropped * 2  # the use


def test_memory_that_another_stream_still_uses_may_be_handed_out(accelerator):
    side = accelerator.stream()
    with debubble.record(accelerator) as timeline:
        used_on_a_side_stream(accelerator, side)
        torch.zeros(1000, device=accelerator.device)  # the next one
    hazard = expect_race(timeline, "memory_reused", "# the use", "# the next one")
    assert "gets memory on stream 0 that stream 1 still uses" in str(hazard)
    assert "record_stream" in str(hazard)


def test_new_memory_is_free_on_the_stream_that_allocated_it_alone(accelerator):
    side = accelerator.stream()
    with in_flight(accelerator) as timeline:
        dropped = torch.zeros(1000, device=accelerator.device)  # the earlier use
        del dropped
        new = torch.empty(1000, device=accelerator.device)
        with side:
            new.zero_()  # the use on another stream
    hazard = expect_race(timeline, "allocated_elsewhere", "# the earlier use", "another stream")
    assert "in memory of a freed one that stream 0 may still use in" in str(hazard)


def test_a_tensor_that_is_held_is_not_handed_out(accelerator):
    side = accelerator.stream()
    with debubble.record(accelerator) as timeline:
        held = torch.ones(1000, device=accelerator.device)
        side.wait_event(recorded_event(accelerator))
        with side:
            accelerator.sleep(5)
            doubled = held * 2
        torch.zeros(1000, device=accelerator.device)
    assert timeline.hazards == []
    assert doubled.tolist() == [2.0] * 1000


def asked(numbers, once=lambda side, end: None, on_side=False, freed=1000, ask=torch.zeros):
    """Returns a function of (side stream, device) that drops memory of `freed` numbers while the
    side stream uses it, does `once`, and asks for memory of `numbers`."""

    def asked(accelerator, side):
        used_on_a_side_stream(accelerator, side, freed)
        with side:
            end = recorded_event(accelerator)
        once(side, end)
        with side if on_side else nullcontext():
            ask(numbers, device=accelerator.device)

    return asked


ASKED = {
    "as large": (asked(1000), True),
    "rounded up to 512 bytes": (asked(1001), True),
    "larger": (asked(1100), False),
    "smaller": (asked(10), True),
    "small, and what was freed is large": (asked(1000, freed=1 << 20), False),
    "empty": (asked(500, ask=torch.empty), True),
    "arange": (asked(500, ask=torch.arange), True),
    "the host has waited": (asked(1000, once=lambda side, end: end.synchronize()), False),
    "the stream has waited": (asked(1000, once=lambda side, end: end.wait()), False),
    "on the stream that uses it": (asked(1000, on_side=True), False),
}
"""Requests for memory, and True if they get memory of the default stream that is still in use."""


@pytest.mark.parametrize("what", ASKED)
def test_freed_memory_is_handed_out_as_pytorch_does(accelerator, what):
    ask, found = ASKED[what]
    with debubble.record(accelerator) as timeline:
        ask(accelerator, accelerator.stream())
    assert kinds(timeline) == ["memory_reused"] * found


def test_a_clone_may_get_it_too(accelerator):
    kept = torch.zeros(500, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        used_on_a_side_stream(accelerator, accelerator.stream())
        kept.clone()
    assert kinds(timeline) == ["memory_reused"]


def test_what_was_dropped_before_a_recording_is_nobodys(accelerator):
    side = accelerator.stream()
    used_on_a_side_stream(accelerator, side)
    with debubble.record(accelerator) as timeline:
        torch.zeros(1000, device=accelerator.device)
    assert timeline.hazards == []


def test_record_stream_takes_streams_alone(accelerator):
    with pytest.raises(TypeError, match="record_stream takes a stream of sim, not None"):
        torch.zeros(3, device=accelerator.device).record_stream(None)


# Two values that are written to one place.


PUT = {
    "assignment": lambda to, index, values: to.__setitem__(index, values),
    "index_put_": lambda to, index, values: to.index_put_((index,), values),
    "index_put": lambda to, index, values: to.index_put((index,), values),
    "scatter_": lambda to, index, values: to.scatter_(0, index, values),
    "scatter": lambda to, index, values: to.scatter(0, index, values),
    "index_copy_": lambda to, index, values: to.index_copy_(0, index, values),
    "index_copy": lambda to, index, values: to.index_copy(0, index, values),
    "put_": lambda to, index, values: to.put_(index, values),
}


@pytest.fixture
def five(accelerator):
    return torch.zeros(5, device=accelerator.device)


@pytest.fixture
def values(accelerator):
    return torch.tensor([1.0, 2.0, 3.0], device=accelerator.device)


@pytest.mark.parametrize("way", PUT)
def test_which_of_two_values_stays_is_undefined(accelerator, five, values, way):
    put = PUT[way]
    twice, once = (torch.tensor(rows, device=accelerator.device) for rows in ([4, 0, 4], [4, 0, 2]))
    with debubble.record(accelerator) as timeline:
        put(five, once, values)
        put(five, twice, torch.full_like(values, 7))
        put(five, twice, torch.full_like(values, float("nan")))
    assert timeline.hazards == []
    with debubble.record(accelerator) as timeline:
        put(five, twice, values)
    hazard = expect_race(timeline, "undefined_order", f'"{way}": lambda')
    assert "writes different values to one place" in str(hazard)


def test_values_that_are_joined_are_no_race(accelerator, five, values):
    to, index = five, torch.tensor([4, 0, 4], device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        to.index_put_((index,), values, accumulate=True)
        to.put_(index, values, accumulate=True)
        to.scatter_add_(0, index, values)
        to.scatter_reduce_(0, index, values, "amax")
        to.index_add_(0, index, values)
        to.scatter_(0, index, 3.0)
        to[to > 1] = values[:2]
    assert timeline.hazards == []


def test_a_capture_proves_nothing_and_its_replay_does(accelerator, five, values):
    """A capture reports no race, since its numbers are whatever the buffers happen to hold; a
    replay does, with the captured line."""
    index = torch.zeros(3, dtype=torch.int64, device=accelerator.device)
    graph = accelerator.graph()
    with debubble.record(accelerator) as timeline:
        with graph.capture():
            five.index_copy_(0, index, values)  # captured here
        index.copy_(torch.tensor([2, 0, 1], device=accelerator.device))
        graph.replay()
    assert timeline.hazards == []
    with debubble.record(accelerator) as timeline:
        index.fill_(1)
        graph.replay()
    (hazard,) = timeline.hazards
    assert "# captured here" in hazard.first.text


@pytest.mark.parametrize(
    "upload",
    [
        lambda host, device: host.to(device, non_blocking=True),
        lambda host, device: host.to(device),
        lambda host, device: torch.empty(4, device=device).copy_(host, non_blocking=True),
        lambda host, device: host.to(device, torch.float64, non_blocking=True),
        lambda host, device: host[:2].to(device, non_blocking=True),
    ],
    ids=["to", "blocking", "copy_", "another dtype", "a part"],
)
def test_a_round_trip_by_pinned_memory_on_one_stream_is_no_race(accelerator, pinned, upload):
    with in_flight(accelerator) as timeline:
        values = torch.full((4,), 3.0, device=accelerator.device)
        pinned.copy_(values, non_blocking=True)
        back = upload(pinned, accelerator.device)
        assert set(back.tolist()) == {3.0}
    assert timeline.hazards == []
