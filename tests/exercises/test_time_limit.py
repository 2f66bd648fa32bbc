"""The time limit ends endless loops and waits of Python code, leaves nothing behind, and blames no
code for other processes."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from debubble.exercises.running.time_limit import STANDING, TimeLimitExceeded, time_limit


def test_an_endless_loop_ends():
    words = r"my_kata was still running after 0\.1 s of CPU time"
    with pytest.raises(TimeLimitExceeded, match=words), time_limit(0.1, "my_kata"):
        while True:
            pass


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@pytest.mark.parametrize("wait", [wait_for_a_lock, lambda: threading.Event().wait()])
def test_a_wait_for_what_never_comes_ends(wait):
    words = r"my_kata was still waiting after 0\.3 s"
    with pytest.raises(TimeLimitExceeded, match=words), time_limit(0.1, "my_kata"):
        wait()


LEARNER = """
import os, signal, sys, time
from debubble.exercises.running.time_limit import time_limit

with time_limit(0.3, "kata"):
    began, end = time.monotonic(), time.process_time() + 0.2
    if "held" in sys.argv:
        os.kill(os.getpid(), signal.SIGSTOP)
    while time.process_time() < end:
        pass
print(time.monotonic() - began)
"""
STANDS_STILL = 0.3 * STANDING


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts Python with `code` in a new process. All these processes share one core."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]),
    )


linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells who waits for a core")


@linux
def test_a_neighbours_load_is_nobodys_time():
    neighbours = [start("while True: pass") for _ in range(8)]
    try:
        said, _ = start(LEARNER).communicate(timeout=100)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.communicate()
    assert float(said) > STANDS_STILL


@linux
def test_a_process_that_was_held_is_not_blamed():
    learner = start(LEARNER, "held")
    os.waitpid(learner.pid, os.WUNTRACED)
    time.sleep(1.5 * STANDS_STILL)
    learner.send_signal(signal.SIGCONT)
    said, _ = learner.communicate(timeout=100)
    assert float(said) > STANDS_STILL


def test_a_loop_that_catches_exceptions_ends():
    with pytest.raises(TimeLimitExceeded), time_limit(0.1, "kata"):
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.01)


def test_a_loop_that_catches_everything_ends_at_the_next_alarm():
    caught = 0
    with pytest.raises(TimeLimitExceeded), time_limit(0.1, "kata"):
        while True:
            try:
                time.sleep(0.01)
            except:  # noqa: E722
                caught += 1
                if caught > 1:
                    raise
    assert caught == 2


def test_quick_code_is_left_alone():
    handler = signal.getsignal(signal.SIGALRM)
    with time_limit(5.0, "kata"):
        pass
    assert signal.getsignal(signal.SIGALRM) is handler


def test_another_timer_goes_on_afterwards():
    signal.setitimer(signal.ITIMER_REAL, 100.0)
    try:
        with time_limit(5.0, "kata"):
            assert signal.getitimer(signal.ITIMER_REAL)[0] <= 5.0
        assert 90.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_no_limit_means_none():
    with time_limit(0, "kata"):
        assert signal.getitimer(signal.ITIMER_REAL)[0] in (0.0, pytest.approx(300, abs=300))


def test_other_threads_run_without_one():
    done = []

    def run():
        with time_limit(0.01, "kata"):
            time.sleep(0.05)
        done.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [True]
