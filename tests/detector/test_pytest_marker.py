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


@pytest.fixture(scope="module")
def run(tmp_path_factory, accelerator):
    """pytest on TESTS, with nothing but the plugins that it is told of."""
    folder = tmp_path_factory.mktemp("marked")
    (folder / "test_marked.py").write_text(TESTS)
    plugins = "debubble.workshop.plugin,debubble_pytest"
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTEST_PLUGINS": plugins, "PYTHONPATH": root, "COLUMNS": "250"}
    without = ["-p", "no:cacheprovider", "-p", "no:nbval"]
    command = [sys.executable, "-m", "pytest", "--strict-markers", *without, "-rA"]
    return subprocess.run(
        [*command, "--device", accelerator.name, "test_marked.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def outcomes(printed: str) -> dict[str, str]:
    rows = [line.split() for line in printed.splitlines() if "test_marked.py::" in line]
    return {row[1].partition("::")[2]: row[0] for row in rows if row[0].isupper()}


def test_only_a_marked_test_that_waits_fails(run):
    assert outcomes(run) == {
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
    assert "HostSyncError" not in failure.partition("\n===")[0]


def test_the_marker_is_known_here_as_well(pytestconfig):
    assert any(line.startswith("no_host_syncs: ") for line in pytestconfig.getini("markers"))
