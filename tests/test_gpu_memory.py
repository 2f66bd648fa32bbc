"""The marker gpu_memory: a test that needs much GPU memory gets it or is skipped."""

import fcntl
import os
import sys
from types import SimpleNamespace

import pytest
import torch

import debubble
from tests import conftest, gpu_memory
from tests.gpu_memory import GIB, lock_path, much_memory

DEVICE = torch.device("cuda", 0)
TOTAL = 80 * GIB


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Pretends that there is a GPU of 80 GiB, 60 of which are free, and that this process holds 1
    GiB. Returns an object with `free` in bytes and `calls`, which notes each limit of this process
    in GiB, and each release of unused memory as "given back"."""
    gpu = SimpleNamespace(free=60 * GIB, calls=[])
    told = {
        "mem_get_info": lambda device: (gpu.free, TOTAL),
        "memory_reserved": lambda device: GIB,
        "get_device_properties": lambda device: SimpleNamespace(total_memory=TOTAL),
        "set_per_process_memory_fraction": lambda part, device: gpu.calls.append(part * 80),
        "empty_cache": lambda: gpu.calls.append("given back"),
    }
    for name, call in told.items():
        monkeypatch.setattr(torch.cuda, name, call)
    monkeypatch.setattr(gpu_memory.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("DEBUBBLE_GPU_MEMORY", raising=False)
    return gpu


def lock_is_free():
    file = os.open(lock_path(), os.O_RDONLY | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(file)


def test_the_limit_is_raised_while_it_runs_and_then_what_it_was(gpu, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_GPU_MEMORY", "2")
    with much_memory(9, DEVICE):
        assert gpu.calls == ["given back", pytest.approx(10)]
    assert gpu.calls[2:] == ["given back", pytest.approx(2)]


def test_without_a_limit_none_is_set(gpu):
    with much_memory(40, DEVICE):
        pass
    assert gpu.calls == ["given back", "given back"]


def test_no_process_may_have_more_than_all(gpu, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_GPU_MEMORY", "2")
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: TOTAL)
    with much_memory(9, DEVICE):
        assert gpu.calls[-1] == 80


def test_it_goes_back_also_after_a_failure_whose_tensors_nobody_keeps(gpu, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_GPU_MEMORY", "2")
    sys.last_value = "what was raised"
    with pytest.raises(ZeroDivisionError), much_memory(9, DEVICE):
        _ = 1 / 0
    assert gpu.calls[2:] == ["given back", pytest.approx(2)]
    assert not hasattr(sys, "last_value")
    assert lock_is_free()


@pytest.mark.parametrize(
    ("gib", "limit", "reason"),
    [
        (60.5, None, "needs 60.5 GiB of GPU memory: 60.0 of 80.0 are free"),
        (
            17,
            "1",
            "needs 17 GiB of GPU memory: where DEBUBBLE_GPU_MEMORY is set, a test takes at most 10",
        ),
    ],
)
def test_where_so_much_is_not_there_it_is_skipped_with_the_numbers(
    gpu, monkeypatch, gib, limit, reason
):
    if limit:
        monkeypatch.setenv("DEBUBBLE_GPU_MEMORY", limit)
    with pytest.raises(pytest.skip.Exception) as skipped, much_memory(gib, DEVICE):
        raise AssertionError("it ran")
    assert str(skipped.value) == reason
    assert lock_is_free()


def test_one_at_a_time_has_it(gpu):
    assert lock_is_free()
    with much_memory(9, DEVICE):
        assert not lock_is_free()
    assert lock_is_free()


@pytest.fixture
def marked(monkeypatch):
    """Returns a function that takes "cuda" or "sim" and returns a test with the marker
    gpu_memory(9) for this accelerator."""

    def of(name):
        present = SimpleNamespace(name=name, device=DEVICE, description=name)
        monkeypatch.setattr(debubble, "accelerator", lambda asked: present)
        marks = {"gpu_memory": pytest.mark.gpu_memory(9).mark}
        config = SimpleNamespace(getoption=lambda option: name)
        return SimpleNamespace(get_closest_marker=marks.get, config=config, stash=pytest.Stash())

    return of


def test_it_has_it_from_before_its_fixtures_are_made_until_they_are_torn_down(gpu, marked):
    item = marked("cuda")
    conftest.pytest_runtest_setup(item)
    assert not lock_is_free()
    teardown = conftest.pytest_runtest_teardown(item)
    next(teardown)
    assert gpu.calls == ["given back"] and not lock_is_free()
    with pytest.raises(StopIteration):
        teardown.send(None)
    assert gpu.calls == ["given back", "given back"] and lock_is_free()


def test_on_sim_the_marker_says_nothing(gpu, marked):
    item = marked("sim")
    conftest.pytest_runtest_setup(item)
    assert list(conftest.pytest_runtest_teardown(item)) == [None]
    assert gpu.calls == [] and lock_is_free()


@pytest.mark.gpu
@pytest.mark.gpu_memory(0.5)
def test_on_a_gpu_it_can_really_be_had(accelerator):
    numbers = torch.empty(GIB // 2 - (1 << 22), dtype=torch.uint8, device=accelerator.device)
    assert numbers.is_cuda
    assert not lock_is_free()
