"""The recordings that chapter 06 shows of a reader's own checkpoint."""

import pytest

from solutions.engine.measure.recordings import STEPS
from solutions.models.checkpoints.random_folder import SHAPES, write_folder
from solutions.models.measure.recordings import record_checkpoint

from .plain_folder import PlainFolder


@pytest.mark.parametrize("named", [False, True], ids=["a tiny one is made", "a folder is named"])
def test_two_recordings_of_one_checkpoint(accelerator, tmp_path, named):
    folder = PlainFolder.of(tmp_path / "folder").write() if named else None
    recorded = record_checkpoint(accelerator, folder, batch=2)
    before, after = recorded["none"].counts(), recorded["all"].counts()
    assert list(recorded) == ["none", "all"]
    assert after["h2d_pageable"] == 0
    assert after["host_syncs"] < STEPS, "for the step before, if that is not done yet"
    assert after["graph_launches"] == after["h2d_pinned"] == STEPS
    assert before["host_syncs"] > 10 * STEPS


def test_a_folder_that_is_not_there_is_named(accelerator, tmp_path):
    with pytest.raises(ValueError, match="nowhere is not there"):
        record_checkpoint(accelerator, tmp_path / "nowhere")


@pytest.mark.sim
@pytest.mark.parametrize("layers", [1, 2])
def test_a_decode_step_of_qwen3_is_eight_kernels_a_layer(accelerator, tmp_path, layers):
    """Chapter 07 compares this count with that of transformers."""
    shape = SHAPES["tiny"] | {"num_hidden_layers": layers}
    folder = write_folder(shape, tmp_path / "folder")
    recorded = record_checkpoint(accelerator, folder, batch=8)["all"]
    assert recorded.counts()["kernels"] == STEPS * (8 * layers + 10)
