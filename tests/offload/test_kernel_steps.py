"""The steps of the chapter's kernel: each copies exactly the given pieces."""

import pytest

from solutions.offload.measure.kernel_steps import STEPS

from .memory import swap


@pytest.mark.parametrize("name", STEPS)
def test_every_step_copies_the_same(accelerator, name):
    copied = swap(accelerator, [8192, 4096, 16])
    STEPS[name](*copied.pinned_descriptors)
    copied.expect_copied()
