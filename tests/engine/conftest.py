"""Models that several tests share. Each engine has its own caches, so a model is made only once."""

import pytest

from .setting import Setting, small


@pytest.fixture(scope="session")
def hybrid(accelerator):
    """Returns a Setting whose model has layers of all three kinds, and 32 blocks of host memory for
    offloading."""
    return Setting.of(small(num_cpu_blocks=32), accelerator)


@pytest.fixture(scope="session")
def attention_only(accelerator):
    """Returns the quickest Setting: its model has one attention layer that sees images, no states,
    and no host memory."""
    return Setting.of(small("spans"), accelerator)
