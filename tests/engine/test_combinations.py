"""The five optimisations change when things happen, and never the answers."""

import pytest

import debubble
from solutions.engine import Optimizations

from .setting import Setting, mixed_requests, prefixes_used, serve, small, tokens_of


@pytest.fixture(scope="module")
def crowded(accelerator):
    """Returns a Setting in which 24 requests have to share 5 blocks."""
    limits, shape = {"num_gpu_blocks": 6}, {"num_heads": 1}
    return Setting.of(small(limits=limits, model=shape, num_cpu_blocks=32), accelerator)


@pytest.fixture(scope="module")
def all_asked(crowded):
    return mixed_requests(crowded.config.model, 24, seed=10)


@pytest.fixture(scope="module")
def right(crowded, all_asked):
    return crowded.answers(all_asked)


@pytest.mark.deep(15)
@pytest.mark.parametrize("optimizations", Optimizations.combinations(), ids=str)
def test_every_combination_answers_as_the_reference_does(
    accelerator, crowded, all_asked, right, optimizations
):
    engine = crowded.engine(optimizations)
    used = prefixes_used(engine)
    with debubble.record(accelerator) as timeline:
        outputs = serve(engine, all_asked)
    assert tokens_of(outputs) == right
    assert timeline.hazards == []
    assert [note for output in outputs for note in output.notes] == []
    assert timeline.counts()["graph_launches"] > 0
    assert engine.scheduler.num_preemptions > 0
    assert any(prefix.gpu_blocks for prefix in used), "nothing was found on the device"
    assert any(prefix.needs_load for prefix in used), "nothing came from host memory"
