"""Leases: several users share a GPU, one at a time, in the order in which they came."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from debubble.accelerator import lease

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.sim

USES_THE_GPU = """
import os, signal, sys, time
from pathlib import Path
import importlib.util

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job begins without it

spec = importlib.util.spec_from_file_location("lease", sys.argv[1])
lease = importlib.util.module_from_spec(spec)
sys.modules["lease"] = lease
spec.loader.exec_module(lease)

folder, name, seconds = Path(os.environ["DEBUBBLE_GPU_QUEUE"]), sys.argv[2], float(sys.argv[3])
lease.wait_for_turn()
inside = folder.parent / "inside"
os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if anybody else is inside
with (folder.parent / "log").open("a") as log:
    log.write(f"{name}\\n")
time.sleep(seconds)
inside.unlink()
"""


@pytest.fixture
def queue(tmp_path):
    folder = tmp_path / "queue"
    folder.mkdir()
    return folder


@pytest.fixture
def start(queue):
    started = []

    def start(name: str, seconds: float = 0.0) -> subprocess.Popen:
        outside = {key: text for key, text in os.environ.items() if key != lease.TURN}
        process = subprocess.Popen(
            [sys.executable, "-c", USES_THE_GPU, lease.__file__, name, str(seconds)],
            env=outside | {lease.FOLDER: str(queue), lease.NAME: name},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_until(holds) -> None:
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to that")


def test_two_never_have_it_at_once(start, queue):
    processes = [start(f"learner{n}", 0.01) for n in range(8)]
    for process in processes:
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
    assert len((queue.parent / "log").read_text().split()) == 8
    assert lease.line(queue) == []


def test_whoever_waits_reads_how_many_are_before_them_and_who_has_it(start, queue):
    start("ada", 60)
    wait_until(lambda: (queue.parent / "inside").exists())
    start("grace")
    wait_until(lambda: len(lease.line(queue)) == 2)
    third = start("edsger")
    assert third.stderr.readline().startswith("Waiting for the GPU: 2 before you, ada has it now.")
    assert [one.who for one in lease.line(queue)] == ["ada", "grace", "edsger"]


def test_they_get_it_in_the_order_in_which_they_came(start, queue):
    holder = start("first", 60)
    wait_until(lambda: (queue.parent / "inside").exists())
    for n, name in enumerate(("second", "third", "fourth"), start=2):
        start(name)
        wait_until(lambda n=n: len(lease.line(queue)) == n)
    (queue.parent / "inside").unlink()
    holder.kill()
    log = queue.parent / "log"
    wait_until(lambda: log.read_text().split() == ["first", "second", "third", "fourth"])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_holder_who_dies_gives_it_back(start, queue, how):
    holder = start("ada", 60)
    wait_until(lambda: (queue.parent / "inside").exists())
    waiting = start("grace")
    wait_until(lambda: len(lease.line(queue)) == 2)
    (queue.parent / "inside").unlink()
    holder.send_signal(how)
    assert waiting.wait(timeout=30) == 0


def test_one_who_leaves_the_line_holds_nobody_up(start, queue):
    holder = start("ada", 60)
    wait_until(lambda: (queue.parent / "inside").exists())
    second = start("grace")
    wait_until(lambda: len(lease.line(queue)) == 2)
    third = start("edsger")
    wait_until(lambda: len(lease.line(queue)) == 3)
    second.kill()
    (queue.parent / "inside").unlink()
    holder.kill()
    assert third.wait(timeout=30) == 0


def test_what_a_holder_starts_uses_its_turn(queue, monkeypatch):
    monkeypatch.setenv(lease.FOLDER, str(queue))
    monkeypatch.setenv(lease.TURN, "4711")
    lease.wait_for_turn()
    assert lease.line(queue) == []


@pytest.mark.parametrize("name", ["0x-me-1", "0-me-1", "00-", "9" * 200 + "-me-1", "1²-me-1"])
def test_a_file_that_is_no_ticket_stands_in_nobodys_way(queue, name):
    """A file whose name is no ticket is ignored in the queue, even if it is locked: all users may
    write to the folder."""
    ticket = queue / f"{time.time_ns() + 10**9:020d}-ada-1"
    with ticket.open("w") as held, (queue / name).open("w") as stray:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(stray, fcntl.LOCK_EX)
        assert [one.who for one in lease.line(queue)] == ["ada"]
        assert lease._before(queue / ("9" * 20 + "-grace-2")) == ["ada"]
    assert lease.line(queue) == []


def test_a_line_that_cannot_be_used_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv(lease.FOLDER, str(tmp_path / "nowhere"))
    monkeypatch.delenv(lease.TURN, raising=False)
    with pytest.raises(RuntimeError, match=r"nowhere can't be used .* work on sim"):
        lease.wait_for_turn()
    assert lease._turn is None


def test_whoever_asks_for_cuda_waits_first(monkeypatch):
    from debubble.accelerator import choice

    def turned_away():
        raise RuntimeError("not your turn")

    monkeypatch.setattr(choice.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(choice.lease, "wait_for_turn", turned_away)
    with pytest.raises(RuntimeError, match="not your turn"):
        choice._make("cuda")
