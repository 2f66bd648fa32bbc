"""Models that several tests serve: made once, since each engine has caches of its own."""

import pytest

from .setting import Setting, small


@pytest.fixture(scope="session")
def hybrid(accelerator):
    """Layers of all three kinds, and host memory."""
    return Setting.of(small(num_cpu_blocks=32), accelerator)


@pytest.fixture(scope="session")
def attention_only(accelerator):
    """The quickest: a layer that sees images, no states, no host memory."""
    return Setting.of(small("spans"), accelerator)
