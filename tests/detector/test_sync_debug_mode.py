"""Waits that `torch.cuda.set_sync_debug_mode` misses and our detector finds: one test for each
claim of `debubble/detector/README.md`. PyTorch's own mode needs a GPU; our detector runs on
both."""

import os
import threading
import warnings
from contextlib import contextmanager

import pytest
import torch

import debubble
from tests.gate import SHORT_MS, closed_gate

from .setting import CLOCKS_APART, Setting, rest_of_the_load

CALLED_A_SYNC = "called a synchronizing CUDA operation"
LARGE = 1 << 20


@contextmanager
def debug_mode(mode: str):
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@pytest.fixture
def s(accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory can't be pinned here")
    setting = Setting(accelerator)
    setting.large = torch.zeros(LARGE, device=accelerator.device)
    setting.large_host = torch.zeros(LARGE)
    accelerator.synchronize()
    return setting


COPIES = {
    "upload_from_pageable_memory": lambda s: s.large_host.to(s.device, non_blocking=True),
    "upload_of_columns_of_pinned_memory": lambda s: s.pinned[:, :3].to(s.device, non_blocking=True),
    "upload_of_every_second_row": lambda s: s.pinned[::2].to(s.device, non_blocking=True),
    "download_into_pageable_memory": lambda s: s.large_host.copy_(s.large, non_blocking=True),
    "download_into_columns_of_pinned_memory": lambda s: s.pinned[:, :3].copy_(
        s.x[:, :3], non_blocking=True
    ),
}
"""Copies with non_blocking=True for which the driver still blocks the host."""

CALLS = {
    "torch.cuda.synchronize": lambda s: s.accelerator.synchronize(),
    "event.synchronize": lambda s: s.event.synchronize(),
    "a_wait_in_a_library": lambda s: torch.unique(s.lengths[:, None], dim=0),
}
"""Calls that wait by other functions than the two PyTorch functions that check the debug mode."""

MISSED = pytest.mark.parametrize("call", (COPIES | CALLS).values(), ids=COPIES | CALLS)
SEEN = {
    "a_value": lambda s: s.x.sum().item(),
    "a_branch": lambda s: 1 if s.mask.any() else 0,
    "a_mask": lambda s: s.x[s.mask],
    "a_blocking_upload": lambda s: torch.tensor([1, 2], device=s.device),
    "a_blocking_download": lambda s: s.x.cpu(),
    "stream.synchronize": lambda s: s.accelerator.current_stream().synchronize(),
}


@pytest.mark.gpu
@MISSED
def test_debug_mode_says_nothing(s, call):
    call(s)
    with debug_mode("error"):
        call(s)


@MISSED
def test_ours_raises_and_lists_it(s, call):
    with debubble.find_host_syncs() as report:
        call(s)
    assert report.findings
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError):
        call(s)


@pytest.mark.gpu
@pytest.mark.parametrize("call", SEEN.values(), ids=SEEN)
def test_debug_mode_does_see_the_rest(s, call):
    """PyTorch's debug mode raises for a wait that it knows. The tests above prove something only if
    the mode works at all."""
    with debug_mode("error"), pytest.raises(RuntimeError, match=CALLED_A_SYNC):
        call(s)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "call", [COPIES["upload_from_pageable_memory"], COPIES["download_into_pageable_memory"]]
)
def test_what_it_says_nothing_of_does_hold_the_host(s, call):
    call(s)
    s.accelerator.synchronize()
    with debug_mode("error"), closed_gate(s.accelerator, SHORT_MS) as gate:
        call(s)
        assert not gate.closed


def test_ours_says_how_long_it_held_the_host(s):
    call = COPIES["download_into_pageable_memory"]
    call(s)
    s.accelerator.sleep(1)
    with debubble.find_host_syncs() as report:
        s.accelerator.sleep(100)
        call(s)
    (finding,) = report.findings
    assert finding.held > rest_of_the_load(report.timeline) - CLOCKS_APART


def in_a_thread(work):
    """Runs `work` in a different thread, and returns its result or raises its error."""
    results = []

    def run():
        try:
            results.append(work())
        except RuntimeError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.gpu
def test_debug_mode_trips_on_other_threads(s):
    with debug_mode("error"):
        outcome = in_a_thread(s.zero.item)
    assert isinstance(outcome, RuntimeError) and CALLED_A_SYNC in str(outcome)


def test_ours_rules_the_threads_that_its_block_starts_and_no_others(s):
    begun, go, results = threading.Event(), threading.Event(), []

    def run():
        begun.set()
        go.wait()
        results.append(s.zero.item())

    other = threading.Thread(target=run)
    other.start()
    begun.wait()
    with debubble.no_host_syncs():
        go.set()
        other.join()
    assert results == [0]
    with pytest.raises(debubble.HostSyncError), debubble.no_host_syncs():
        assert isinstance(in_a_thread(s.zero.item), debubble.HostSyncError)


@pytest.mark.gpu
def test_who_turns_debug_mode_off_turns_it_off_for_everybody(s):
    """A thread that switches the debug mode off switches it off for all threads. A user must do so
    to allow one wait, since the mode has no regions."""
    with debug_mode("error"):
        in_a_thread(lambda: torch.cuda.set_sync_debug_mode("default"))
        assert s.zero.item() == 0


def test_what_a_thread_allows_itself_with_ours_stays_its_own(s):
    def allowed():
        with debubble.allow_host_sync():
            return s.zero.item()

    with debubble.no_host_syncs():
        assert in_a_thread(allowed) == 0
        with pytest.raises(debubble.HostSyncError):
            s.zero.item()


def warned(action: str, work) -> list[warnings.WarningMessage]:
    with debug_mode("warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        work()
    return [warning for warning in caught if CALLED_A_SYNC in str(warning.message)]


@pytest.mark.gpu
def test_a_warning_names_pytorchs_line_where_pytorch_waits_in_python(s):
    places = {warning.filename for warning in warned("always", lambda: repr(s.x))}
    assert places
    assert all(f"{os.sep}torch{os.sep}" in place for place in places), places


def test_ours_names_the_users_line(s):
    with debubble.find_host_syncs() as report:
        repr(s.x)  # printed here
    assert {finding.source.text.partition("# ")[2] for finding in report.findings} == {
        "printed here"
    }


@pytest.mark.gpu
def test_a_line_that_waits_again_and_again_is_warned_of_once(s):
    """The debug mode's warning appears once for a line that waits five times: Python shows a
    repeated warning once by default."""

    def wait_often():
        for _ in range(5):
            s.zero.item()

    assert len(warned("default", wait_often)) == 1


def test_ours_counts_how_often_a_line_waits(s):
    with debubble.find_host_syncs() as report:
        for _ in range(5):
            s.zero.item()
    (finding,) = report.findings
    assert finding.count == 5


@pytest.mark.gpu
def test_a_wait_of_another_library_is_seen_by_the_recording_only(s):
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings is not installed")
    with debug_mode("error"), debubble.find_host_syncs() as report:
        runtime.cudaDeviceSynchronize()
    assert [finding.what for finding in report.findings] == ["the device"]
