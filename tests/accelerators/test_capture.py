"""Captures of graphs: refused calls, after which everything still works."""

import gc
import threading
from functools import partial

import pytest
import torch

import debubble
from debubble.accelerator import CaptureError
from tests.common import claims


@pytest.fixture
def x(accelerator):
    return torch.ones(4, device=accelerator.device)


captured = partial(claims.captured, warm_up=False)


def test_a_capture_inside_another_is_refused_and_the_other_goes_on(accelerator, x):
    outer, inner = accelerator.graph(), accelerator.graph()
    with outer.capture():
        y = x + 1
        with pytest.raises(CaptureError, match="being captured already"), inner.capture():
            raise AssertionError("nothing of it may run")
        y = y * 2
    outer.replay()
    assert y.tolist() == [4.0] * 4
    with inner.capture():
        z = x + 5
    inner.replay()
    assert z.tolist() == [6.0] * 4


def test_a_capture_in_another_thread_is_refused_meanwhile(accelerator, x):
    errors, other = [], accelerator.graph()

    def capture():
        try:
            with other.capture():
                pass
        except CaptureError as error:
            errors.append(str(error))

    graph = accelerator.graph()
    with graph.capture():
        thread = threading.Thread(target=capture)
        thread.start()
        thread.join()
        y = x + 1
    assert ["being captured already" in error for error in errors] == [True]
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_a_capture_waits_for_a_warm_up_on_another_stream(accelerator, x):
    """Work of the warm-up may still run on a stream of its own when the capture begins (SGLang
    #32432)."""
    side = accelerator.stream()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        with side:
            accelerator.sleep(20.0)
            x.fill_(3.0)
        graph, doubled = captured(accelerator, lambda: x * 2)
        assert side.query(), "the capture began while the warm-up still ran"
        graph.replay()
    assert timeline.hazards == []
    assert doubled.eq(6.0).all().item()


def test_a_graph_is_captured_once(accelerator, x):
    graph, y = captured(accelerator, lambda: x + 1)
    with pytest.raises(CaptureError, match="holds a capture already"), graph.capture():
        raise AssertionError("nothing of it may run")
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_a_graph_that_holds_nothing_is_not_replayed(accelerator):
    with pytest.raises(CaptureError, match="nothing was captured"):
        accelerator.graph().replay()


WAITS = {
    "device": lambda accelerator: accelerator.synchronize,
    "stream": lambda accelerator: accelerator.current_stream().synchronize,
    "event": lambda accelerator: accelerator.current_stream().record_event().synchronize,
}


@pytest.mark.parametrize("which", WAITS)
def test_a_wait_is_refused_at_its_line_before_it_breaks_the_capture(accelerator, x, which):
    wait = WAITS[which](accelerator)
    graph = accelerator.graph()
    with graph.capture():
        with pytest.raises(CaptureError, match=rf"{which} synchronize .*test_capture\.py"):
            wait()
        y = x + 1
    graph.replay()
    assert y.tolist() == [2.0] * 4


class Stop(Exception):
    pass


def stops(x):
    raise Stop


FAILURES = {
    "an error of its own": (stops, Stop),
    "reading a value": (lambda x: x.sum().item(), RuntimeError),
    "a mask": (lambda x: x[x > 0], RuntimeError),
}


@pytest.fixture(params=FAILURES)
def failed(request, accelerator, x):
    """Returns a graph whose capture failed with an error, after the capture had queued work on
    x."""
    fail, error = FAILURES[request.param]
    graph = accelerator.graph()
    with pytest.raises(error), graph.capture():
        x.add_(1)
        torch.rand(4, device=accelerator.device)
        fail(x)
    return graph


def test_a_failed_capture_did_nothing_and_holds_nothing(failed, x):
    assert x.tolist() == [1.0] * 4
    with pytest.raises(CaptureError, match="nothing was captured"):
        failed.replay()


def test_after_a_failed_capture_random_numbers_are_drawn(accelerator, failed):
    assert torch.randn(1000, device=accelerator.device).std().item() == pytest.approx(1, abs=0.2)


def test_after_a_failed_capture_streams_and_events_go_on(accelerator, failed, x):
    event = accelerator.event()
    y = x * 3
    event.record()
    event.synchronize()
    side = accelerator.stream()
    side.wait_stream(accelerator.current_stream())
    with side:
        z = y + 1
    accelerator.current_stream().wait_stream(side)
    assert z.tolist() == [4.0] * 4


def test_after_a_failed_capture_another_works(accelerator, failed, x):
    for graph in (failed, accelerator.graph()):
        with graph.capture():
            y = x + torch.rand(4, device=accelerator.device)
        draws = []
        for _ in range(2):
            graph.replay()
            draws.append(y.tolist())
        assert all(1.0 <= value <= 2.0 for draw in draws for value in draw)


def test_a_failed_capture_leaves_the_stream_of_the_caller(accelerator, x):
    side = accelerator.stream()
    with side:
        with pytest.raises(Stop), accelerator.graph().capture():
            stops(x)
        assert accelerator.current_stream() == side


def test_memory_made_in_a_failed_capture_is_given_back_or_worthless(accelerator, x):
    with pytest.raises(Stop), accelerator.graph().capture():
        y = x + 1
        stops(x)
    del y
    assert (x + 1).tolist() == [2.0] * 4


def test_a_graph_that_is_garbage_is_not_collected_during_another_capture(accelerator):
    """Python's garbage collector does not run during a capture. If it freed an older graph there,
    CUDA would abort the capture."""
    x, old = torch.ones(4, device=accelerator.device), accelerator.graph()
    with old.capture():
        x + 1
    circle = [old]
    circle.append(circle)
    begun: list[str] = []
    thresholds, graph = gc.get_threshold(), accelerator.graph()

    def notice(phase, info):
        begun.append(phase)

    gc.set_threshold(1)
    del old, circle
    try:
        with graph.capture():
            gc.callbacks.append(notice)
            made = [[] for _ in range(10)]
            y = x + len(made)
            gc.callbacks.remove(notice)
    finally:
        gc.set_threshold(*thresholds)
    graph.replay()
    assert y.tolist() == [11.0] * 4
    assert not begun
    assert gc.isenabled()
