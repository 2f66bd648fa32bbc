"""The recordings that chapter 06 shows of a reader's own checkpoint."""

import pytest

from solutions.engine.measure.recordings import STEPS
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
