"""Models that several tests share. Each engine has its own caches, so a model is made only once."""

import pytest

from solutions.engine.sampling import choose

from .setting import Setting, small


@pytest.fixture(scope="package", autouse=True)
def small_tiles(accelerator):
    """Makes programs of choose_kernel take few short rows on sim, because a program computes all of
    its rows, whether they exist or not."""
    with pytest.MonkeyPatch.context() as patch:
        if accelerator.modelled:
            patch.setattr(choose, "TILE", 512)
        yield


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
