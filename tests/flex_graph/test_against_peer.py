"""Our steps beside a compiled model's: the lesson's attention, a checkpoint's, and their record."""

import json
from dataclasses import asdict, replace

import pytest

from solutions.flex_graph.measure import against_peer, decode_step
from solutions.flex_graph.measure.decode_step import FlexWorkload, Variants
from solutions.flex_graph.model.config import FlexConfig
from solutions.measure.benchmark import record_step

LAYERS = 2


@pytest.fixture
def workload(monkeypatch):
    monkeypatch.setattr(decode_step, "STEPS_IN_A_ROW", {True: 2, False: 3})
    tiny = asdict(replace(FlexConfig.tiny(), num_layers=LAYERS))
    return FlexWorkload(**tiny, cached=(5, 40), num_gpu_blocks=32)


class PretendedPeer:
    """A peer whose steps take 7 µs and have 11 kernels."""

    def __init__(self, shape):
        self.shape = shape

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def step_us(self):
        return 7.0

    def kernels(self):
        return 11


def test_the_record_has_both_of_our_steps_and_the_peer(
    accelerator, workload, tmp_path, monkeypatch
):
    monkeypatch.setattr(against_peer, "CompiledPeer", PretendedPeer)
    monkeypatch.setattr(against_peer, "ROUNDS", 2)
    monkeypatch.setattr(against_peer, "nominal_bytes_per_s", lambda accelerator: 1e12)
    decode_step.compare_with_peer(accelerator, workload, tmp_path)
    record = json.loads((tmp_path / "flex_graph_peer.json").read_text())
    assert list(record["steps"]) == ["ours", "attend", "compiled"]
    assert all(step["median_us"] > 0 for step in record["steps"].values())
    assert record["steps"]["compiled"]["median_us"] == 7.0
    assert record["kernels"]["compiled"] == 11
    assert record["kernels"]["attend"] < record["kernels"]["ours"]
    tokens, heads, size = 6 + 41, workload.num_kv_heads, workload.head_size
    assert list(record["attention"]) == ["ours", "attend"]
    for attention in record["attention"].values():
        assert attention["kv_bytes"] == LAYERS * 2 * 2 * tokens * heads * size
        rate = attention["kv_bytes"] / attention["device_us"] * 1e6
        assert attention["bytes_per_s"] == pytest.approx(rate)
        assert attention["nominal_share"] == pytest.approx(rate / 1e12)


def test_the_lesson_keeps_its_attention_once_a_checkpoints_is_captured(accelerator, workload):
    variants = Variants(workload, accelerator)
    lesson, few = variants.in_one_graph(), variants.in_one_graph_with_kernel_for_few()
    for steps, named in ((lesson, "flex_"), (few, "attend_kernel")):
        steps.row()
        kernels = against_peer.kernels_of(record_step(accelerator, steps.first))
        attending = [
            event.name
            for event in kernels
            if any(part in event.name for part in against_peer.ATTENTION)
        ]
        assert len(attending) >= LAYERS
        assert all(named in name for name in attending)
        assert "sleep" not in {event.name for event in kernels}
