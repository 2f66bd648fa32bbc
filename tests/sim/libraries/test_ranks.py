"""Ranks that train together over gloo, each with its own sim."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .ranks import RANKS, batch, model, step

pytestmark = [pytest.mark.sim, pytest.mark.deep]


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_ranks_learn_what_one_learns_of_all_rows(accelerator, way, tmp_path):
    command = [sys.executable, "-m", "tests.sim.libraries.ranks", way]
    here = Path(__file__).parents[3]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meeting")], stdout=subprocess.PIPE, cwd=here
        )
        for rank in range(RANKS)
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    alone = model()
    step(alone, batch())
    for each in said:
        for got, expected in zip(json.loads(each), alone.parameters(), strict=True):
            torch.testing.assert_close(torch.tensor(got), expected.detach())
