"""Capture and replay on sim: captured values, stale values, and refused calls."""

from functools import partial

import pytest
import torch
import triton
import triton.language as tl

import debubble
from debubble.accelerator import CaptureError, launch
from debubble.sim.memory.tape import PAGE, pages_in_use
from tests.common import claims
from tests.sim.in_flight import expect_race, kinds

pytestmark = pytest.mark.sim


@triton.jit
def add_one(source, target, size, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < size
    tl.store(target + offsets, tl.load(source + offsets, mask=inside) + 1, mask=inside)


captured = partial(claims.captured, warm_up=False)


def test_a_replay_reads_the_same_address_with_new_values(accelerator):
    x = torch.zeros(3, device=accelerator.device)
    graph, y = captured(accelerator, lambda: x * 2 + 1)
    for value in (1, 5):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [2.0 * value + 1] * 3


def test_nothing_runs_during_a_capture(accelerator):
    x = torch.zeros(3, device=accelerator.device)
    _, y = captured(accelerator, lambda: x.add_(1) * 2)
    assert x.tolist() == [0.0] * 3
    assert y.isnan().all()


def test_a_triton_kernel_is_captured_and_replayed(accelerator):
    x = torch.zeros(3, device=accelerator.device)
    y = torch.zeros(3, device=accelerator.device)
    graph, _ = captured(accelerator, lambda: launch(add_one, (1,), x, y, 3, BLOCK=4))
    assert y.tolist() == [0.0] * 3
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [5.0] * 3


def test_python_values_are_baked_in(accelerator):
    x = torch.zeros(3, device=accelerator.device)
    scale = 2
    graph, y = captured(accelerator, lambda: (x + 1) * scale)
    scale = 100
    graph.replay()
    assert y.tolist() == [2.0] * 3


def test_a_replay_does_not_see_a_tensor_that_took_the_place_of_its_input(accelerator):
    inputs = {"x": torch.zeros(3, device=accelerator.device)}
    kept = inputs["x"]
    graph, y = captured(accelerator, lambda: inputs["x"] + 1)
    inputs["x"] = torch.full((3,), 9.0, device=accelerator.device)
    graph.replay()
    assert y.tolist() == [1.0] * 3
    assert kept.tolist() == [0.0] * 3


def test_a_freed_input_is_a_hazard_with_both_lines(accelerator):
    inputs = {"x": torch.zeros(3, device=accelerator.device)}
    graph = accelerator.graph()
    with graph.capture():
        y = inputs["x"] + 1  # used here
    del inputs["x"]  # freed here
    with debubble.record(accelerator) as timeline:
        graph.replay()
    assert y.isnan().all()
    expect_race(timeline, "graph_input_freed", "# used here", "# freed here")


def test_an_input_that_was_written_in_place_is_no_hazard(accelerator):
    x = torch.zeros(3, device=accelerator.device)
    graph, _ = captured(accelerator, lambda: x + 1)
    x.copy_(torch.ones(3))
    with debubble.record(accelerator) as timeline:
        graph.replay()
    assert timeline.hazards == []


def doubled_by_way_of(make):
    def call(x):
        y = make(x)
        y.copy_(x)
        return y + x

    return call


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.double() + x,
        doubled_by_way_of(lambda x: torch.empty(3, device=x.device)),
        doubled_by_way_of(lambda x: x.new_empty(3, dtype=torch.int64)),
    ],
    ids=["converted", "empty", "new_empty"],
)
def test_memory_that_is_made_in_a_capture_belongs_to_the_graph(accelerator, compute):
    x = torch.zeros(3, device=accelerator.device)
    graph, y = captured(accelerator, lambda: compute(x))
    x.fill_(3.0)
    with debubble.record(accelerator) as timeline:
        graph.replay()
    assert timeline.hazards == []
    assert y.tolist() == [6.0] * 3


def test_memory_that_is_made_in_a_capture_holds_nothing_before_a_replay(accelerator):
    x = torch.ones(3, device=accelerator.device)
    _, y = captured(accelerator, lambda: torch.empty(3, device=x.device).copy_(x))
    assert y.isnan().all()


def test_a_captured_download_arrives_with_a_replay(accelerator):
    x, pinned = torch.ones(3, device=accelerator.device), torch.zeros(3, pin_memory=True)
    graph, _ = captured(accelerator, lambda: pinned.copy_(x, non_blocking=True))
    assert pinned.tolist() == [0.0] * 3
    graph.replay()
    accelerator.synchronize()
    assert pinned.tolist() == [1.0] * 3


def test_a_pinned_upload_is_captured_with_its_address(accelerator):
    pinned = torch.zeros(3, pin_memory=True)
    x = torch.zeros(3, device=accelerator.device)
    graph, _ = captured(accelerator, lambda: x.copy_(pinned, non_blocking=True))
    pinned.fill_(6)
    graph.replay()
    assert x.tolist() == [6.0] * 3


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x[x > 0],
        lambda x: torch.tensor([1.0], device=x.device),
        lambda x: x.copy_(torch.zeros(3), non_blocking=True),
        lambda x: debubble.accelerator().synchronize(),
    ],
    ids=["item", "cpu", "mask", "list", "pageable", "synchronize"],
)
def test_what_a_graph_can_not_hold_is_refused_at_its_line(accelerator, work):
    x = torch.ones(3, device=accelerator.device)
    graph = accelerator.graph()
    with pytest.raises(CaptureError, match=r"test_graphs\.py"), graph.capture():
        work(x)
    assert x.tolist() == [1.0] * 3


def test_what_a_failed_capture_made_is_poison(accelerator):
    x = torch.ones(3, device=accelerator.device)
    with pytest.raises(KeyError), accelerator.graph().capture():
        y = x + 1
        raise KeyError
    assert y.isnan().all()


def test_a_replay_that_breaks_on_freed_memory_names_the_hazard_all_the_same(accelerator):
    table = torch.arange(3.0, device=accelerator.device)
    inputs = {"index": torch.zeros(3, dtype=torch.int64, device=accelerator.device)}
    graph, _ = captured(accelerator, lambda: table[inputs["index"]])
    del inputs["index"]
    with debubble.record(accelerator) as timeline, pytest.raises(IndexError):
        graph.replay()
    assert kinds(timeline) == ["graph_input_freed"]


def test_a_capture_leaves_memory_alone_that_nobody_has_used(accelerator):
    """A capture restores memory without touching pages that were never used, and its replay writes
    them: an engine's cache fills nearly all of a GPU, but only a few blocks are in use."""
    cache = torch.empty(128 << 20, dtype=torch.uint8, device=accelerator.device)
    cache[5:9] = 7
    cache[-3:] = 8

    def work():
        cache[6:8] = 1
        cache[64 << 20 : (64 << 20) + 1] = 2
        cache[-2:-1] = 3

    graph, _ = captured(accelerator, work)
    places = (5, 6, 8, 64 << 20, -3, -2)
    assert [cache[place].item() for place in places] == [7, 7, 7, 0, 8, 8]
    graph.replay()
    assert [cache[place].item() for place in places] == [7, 1, 7, 2, 8, 3]
    whole = cache.data_on_cpu[-cache.data_ptr() % PAGE :]
    in_use = pages_in_use(whole[: len(whole) // PAGE * PAGE].view(-1, PAGE))
    assert in_use is None or in_use.sum() * PAGE < 32 << 20
