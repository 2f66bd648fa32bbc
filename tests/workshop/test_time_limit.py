"""The time limit ends endless loops of Python code, and leaves no trace behind."""

import contextlib
import signal
import threading
import time

import pytest

from debubble.workshop.running.under_test import TimeLimitExceeded, time_limit


def test_an_endless_loop_ends():
    words = r"my_kata was still running after 0\.1 s"
    with pytest.raises(TimeLimitExceeded, match=words), time_limit(0.1, "my_kata"):
        while True:
            pass


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
