"""Snippets that wait are found at exactly their lines, and snippets that don't wait are not found,
on sim and on CUDA."""

import inspect

import pytest

import debubble

from . import that_do_not, that_wait
from .setting import Setting

MARK = "# waits"


def snippets(module) -> dict:
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__
    }


def marked_lines(snippet) -> list[int]:
    lines, first = inspect.getsourcelines(snippet)
    return [number for number, line in enumerate(lines, first) if MARK in line]


@pytest.fixture
def setting(accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory can't be pinned here")
    return Setting(accelerator)


WAIT = pytest.mark.parametrize("snippet", snippets(that_wait).values(), ids=snippets(that_wait))
DO_NOT = pytest.mark.parametrize(
    "snippet", snippets(that_do_not).values(), ids=snippets(that_do_not)
)


def test_each_that_waits_has_its_line_marked():
    assert all(marked_lines(snippet) for snippet in snippets(that_wait).values())
    assert not any(marked_lines(snippet) for snippet in snippets(that_do_not).values())


@WAIT
def test_a_wait_raises_at_its_line(snippet, setting):
    with pytest.raises(debubble.HostSyncError) as caught, debubble.no_host_syncs():
        snippet(setting)
    source = caught.value.source
    assert (source.file, source.line) == (that_wait.__file__, marked_lines(snippet)[0])


@WAIT
def test_a_wait_is_listed_at_its_line(snippet, setting):
    snippet(setting)
    with debubble.find_host_syncs() as report:
        snippet(setting)
    found = {(finding.source.file, finding.source.line) for finding in report.findings}
    assert found == {(that_wait.__file__, line) for line in marked_lines(snippet)}, str(report)
    assert not report.allowed
    for finding in report.findings:
        assert finding.thread is None
        assert finding.held >= finding.worst > 0


@DO_NOT
def test_code_that_does_not_wait_passes(snippet, setting):
    snippet(setting)
    with debubble.no_host_syncs():
        snippet(setting)


@DO_NOT
def test_nothing_is_listed_of_code_that_does_not_wait(snippet, setting):
    snippet(setting)
    with debubble.find_host_syncs() as report:
        snippet(setting)
    assert not report.findings, str(report)
