"""Stray accesses: errors about addresses are explained, and all other errors stay as they are."""

import pytest

from debubble.contract.source_line import SourceLine
from debubble.exercises.teaching.stray_access import diagnosis_of_end, diagnosis_of_error

LINE = SourceLine("/somewhere/kernel.py", 7, "copy", "tl.store(target, word)")
OF_CUDA = (
    "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be "
    "asynchronously reported at some other API call."
)
OF_SIM = "an illegal memory access: descriptor 5 (source 0x10, 4096 bytes) is in pageable memory."


def text_of(message: str) -> str:
    return " ".join(str(diagnosis_of_error(RuntimeError(message), LINE)).split())


def test_an_illegal_access_on_cuda_names_a_line_that_may_be_late():
    text = text_of(OF_CUDA)
    assert "raised RuntimeError: CUDA error: an illegal memory access was encountered." in text
    assert "kernel.py:7: tl.store(target, word) A kernel runs after its call has returned" in text
    assert "asynchronously" not in text


def test_one_on_sim_keeps_the_descriptor():
    text = text_of(OF_SIM)
    assert "descriptor 5 (source 0x10, 4096 bytes) is in pageable memory. At" in text
    assert "after its call" not in text


def test_a_misaligned_address_is_another_lesson():
    text = text_of("Triton Error [CUDA]: misaligned address")
    assert "at multiples of 8" in text and "is not checked" not in text


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), ValueError(OF_CUDA)])
def test_another_error_is_not_explained(error):
    assert diagnosis_of_error(error, LINE) is None


def test_an_unknown_signal_is_named():
    assert "by signal 8 (Floating point exception)" in str(diagnosis_of_end(-8, None))
