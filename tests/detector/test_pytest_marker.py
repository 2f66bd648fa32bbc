"""The marker `no_host_syncs`, in a pytest run of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import debubble
import pytest
import torch


@pytest.fixture
def x():
    x = torch.ones(4, 4, device=debubble.accelerator().device)
    x.sum().item()
    yield x
    x.sum().item()


def mean(x):
    return x.mean().item()  # the wait


@pytest.mark.no_host_syncs
def test_waits(x):
    mean(x + 1)


@pytest.mark.no_host_syncs
def test_never_waits(x):
    y = x + 1
    with debubble.allow_host_sync():
        assert y.sum().item() == 32


def test_may_wait(x):
    assert mean(x) == 1


@pytest.mark.no_host_syncs
@pytest.mark.xfail(raises=debubble.HostSyncError, strict=True)
def test_waits_as_we_know(x):
    mean(x)


@pytest.mark.no_host_syncs
@pytest.mark.parametrize("value", [1, 2])
class TestOfAClass:
    def test_fills(self, x, value):
        x[1:] = value

    def test_asks(self, x, value):
        if x[0, 0] > value:
            raise AssertionError


@pytest.mark.no_host_syncs
def test_fails_for_a_reason_of_its_own(x):
    rank = x.dim()
    assert rank == 3
"""


RACES = """
import debubble
import pytest
import torch

pytestmark = pytest.mark.no_host_syncs


@pytest.fixture
def x():
    return torch.ones(4, device=debubble.accelerator().device)


def read_too_early(x):
    host = x.to("cpu", non_blocking=True)  # the copy
    return host.sum()  # the read


def test_reads_too_early(x):
    read_too_early(x)


def test_reads_too_early_in_a_recording_of_its_own(x):
    with debubble.record() as recorded:
        read_too_early(x)
    assert len(recorded.hazards) == 1


def test_reads_too_early_before_a_recording_of_its_own(x):
    read_too_early(x)
    with debubble.record() as recorded:
        x + 1
    assert not recorded.hazards


def test_overwrites_in_flight(x):
    debubble.accelerator().sleep(5)
    host = torch.ones(4, pin_memory=True)
    x.copy_(host, non_blocking=True)  # the upload
    host.fill_(2)  # the write


def test_orders_no_streams(x):
    y = x + 1  # on the first stream
    with debubble.accelerator().stream():
        y.mul_(2)  # on the second


def test_fails_and_races(x):
    read_too_early(x)
    assert x.dim() == 2


def test_waits_for_an_event(x):
    host, done = x.to("cpu", non_blocking=True), debubble.accelerator().event()
    done.record()
    with debubble.allow_host_sync():
        done.synchronize()
    assert host.sum() == 4


def test_races_without_the_marker(x):
    pass
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, accelerator):
    """Runs pytest on TESTS, and on RACES where races are proved, in a process of its own with only
    our two plugins, and returns its output."""
    folder = tmp_path_factory.mktemp("marked")
    (folder / "test_marked.py").write_text(TESTS)
    if accelerator.modelled:
        (folder / "test_races.py").write_text(RACES)
    plugins = "debubble.exercises.plugin,debubble_pytest"
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTEST_PLUGINS": plugins, "PYTHONPATH": root, "COLUMNS": "250"}
    without = ["-p", "no:cacheprovider", "-p", "no:nbval"]
    command = [sys.executable, "-m", "pytest", "--strict-markers", *without, "-rA"]
    return subprocess.run(
        [*command, "--device", accelerator.name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def outcomes(printed: str, file: str) -> dict[str, str]:
    rows = [line.split() for line in printed.splitlines() if f" {file}::" in line]
    return {row[1].partition("::")[2]: row[0] for row in rows if row[0].isupper()}


def test_only_a_marked_test_that_waits_fails(run):
    assert outcomes(run, "test_marked.py") == {
        "test_waits": "FAILED",
        "test_never_waits": "PASSED",
        "test_may_wait": "PASSED",
        "test_waits_as_we_know": "XFAIL",
        "TestOfAClass::test_fills[1]": "PASSED",
        "TestOfAClass::test_fills[2]": "PASSED",
        "TestOfAClass::test_asks[1]": "FAILED",
        "TestOfAClass::test_asks[2]": "FAILED",
        "test_fails_for_a_reason_of_its_own": "FAILED",
    }


def test_the_failure_shows_the_users_lines_and_no_others(run):
    failure = run.partition("_ test_waits _")[2].partition("\n___")[0]
    assert ">       mean(x + 1)" in failure
    assert ">       return x.mean().item()  # the wait" in failure
    assert "makes the host wait for the device" in failure
    assert "allow_host_sync" in failure
    places = [line for line in failure.splitlines() if line.startswith(("test_marked.py:", "/"))]
    assert [place.partition(": ")[2] for place in places] == ["", "HostSyncError"]


def test_another_failure_reads_as_ever(run):
    failure = run.partition("_ test_fails_for_a_reason_of_its_own _")[2]
    assert "assert 2 == 3" in failure
    assert "HostSyncError" not in failure.partition("\n___")[0]


def test_the_marker_is_known_here_as_well(pytestconfig):
    assert any(line.startswith("no_host_syncs: ") for line in pytestconfig.getini("markers"))


@pytest.fixture(scope="module")
def races(run, accelerator):
    if not accelerator.modelled:
        pytest.skip("a GPU proves no race")
    return run


def test_a_race_fails_a_marked_test_with_both_lines(races):
    found = outcomes(races, "test_races.py")
    right = {"test_waits_for_an_event", "test_races_without_the_marker"}
    assert {name for name, outcome in found.items() if outcome == "PASSED"} == right
    assert len(found) == 8
    for name, *lines in (
        ("test_reads_too_early", "# the copy", "# the read"),
        ("test_reads_too_early_in_a_recording_of_its_own", "# the copy", "# the read"),
        ("test_reads_too_early_before_a_recording_of_its_own", "# the copy", "# the read"),
        ("test_overwrites_in_flight", "# the upload", "# the write"),
        ("test_orders_no_streams", "# on the first stream", "# on the second"),
    ):
        failure = races.partition(f"_ {name} _")[2].partition("\n___")[0]
        assert "a race was proved, so results may be wrong:" in failure, name
        assert all(line in failure for line in lines), failure
        assert "Traceback" not in failure and "debubble_pytest" not in failure


def test_a_failure_of_its_own_comes_before_a_race(races):
    failure = races.partition("_ test_fails_and_races _")[2].partition("\n___")[0]
    assert "assert 1 == 2" in failure
