"""The tiny workbook with tests in their own processes, and code that ends in many ways."""

from pathlib import Path

from .workbook import Workbook

TESTS = "katas/tiny/test_add_up.py"
FIRST_TEST = "\n\n\ndef test_the_sum"
MARK = "\n\npytestmark = pytest.mark.own_process"

WAYS_TO_END = """
import os

import pytest

from debubble.exercises import Diagnosis, KataFailure

pytestmark = pytest.mark.own_process


def claim():
    raise KataFailure(Diagnosis("no counting", "counted 3 times", why="Slow."))


@pytest.mark.parametrize("way", [
    "segfault", "segfault again", "pass", "exit 0", "exit 3", "abort", "kill", "raise", "loop in C",
    "loop",
])
def test_the_code(kata, way):
    assert kata.add_up(way, []) == 6


def test_a_claim(kata):
    claim()


def test_a_claim_then_an_abort(kata, request):
    request.addfinalizer(os.abort)
    claim()


def test_an_abort_at_the_end(kata, request):
    request.addfinalizer(os.abort)


def test_a_skip(kata):
    pytest.skip("not here")


def test_a_mistake(kata):
    [] + 1
"""

CODE = """
import ctypes
import itertools
import os


def add_up(way, counter):
    print("here is", way, flush=True)
    if way.startswith("segfault"):
        ctypes.string_at(0)
    if way.startswith("exit"):
        os._exit(int(way[-1]))
    if way == "abort":
        os.abort()
    if way == "kill":
        os.kill(os.getpid(), 9)
    if way == "raise":
        raise ValueError("no number")
    if way == "loop in C":
        sum(itertools.repeat(0))
    while way == "loop":
        pass
    return 6
"""

IMPATIENT = """
def pytest_configure():
    from debubble.exercises.plugin import runs
    from debubble.exercises.running.processes import forked

    runs.SECOND_CHANCE = forked.GRACE = 0.25
"""
"""A pytest plugin that ends endless code sooner."""

NOT_OF_A_KATA = """
import ctypes

import pytest


@pytest.mark.own_process
def test_other():
    ctypes.string_at(0)
"""

KERNEL = '''
"""Stores where it should not in the first test."""

import torch
import triton
import triton.language as tl


@triton.jit
def store(address):
    tl.store(address.to(tl.int64).to(tl.pointer_type(tl.int64)), 1)


def add_up(numbers, counter):
    if 4 in numbers:
        STRAY
    return sum(numbers)
'''


def mark(workbook: Workbook) -> Workbook:
    """Makes the workbook's tests run in processes of their own, and the first one add up numbers
    with a 4, at which code can crash. Returns the workbook."""
    workbook.edit(TESTS, FIRST_TEST, MARK + FIRST_TEST)
    workbook.edit(TESTS, "from debubble", "import pytest\n\nfrom debubble")
    workbook.edit(TESTS, "kata.add_up([1, 2, 3], []), 6", "kata.add_up([1, 2, 4], []), 7")
    return workbook


def with_many_ends(root: Path) -> Workbook:
    workbook = Workbook(root)
    workbook.write(TESTS, WAYS_TO_END)
    workbook.write("katas/tiny/test_other.py", NOT_OF_A_KATA)
    workbook.write("impatient.py", IMPATIENT)
    workbook.stub.write_text(CODE.lstrip())
    return workbook


def kernel(workbook: Workbook, stray: str) -> str:
    """Writes an implementation that accesses memory astray by `stray` in the first test, and
    returns its path."""
    return str(workbook.write("kernel.py", KERNEL.replace("STRAY", stray)))
