"""Engines that step side by side, in a process each: `run_engines` starts them and collects what
they saw.

This is not a test module: run it as `python -m tests.engine.engine_ranks SIZE FOLDER`.
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist

import debubble
from solutions.engine import Engine
from solutions.sync_free import DataParallelGroup
from tests.common import ranks

from .setting import ALL, WITHOUT, Setting, add, small

SCENARIOS = ("uneven", "one prefills", "one has no work", "one looks back", "nobody has work")
OPTIMIZATIONS = {"all": ALL, "sync_free off": WITHOUT["sync_free"]}


def run_engines(device: str, size: int, folder: Path) -> list[dict]:
    """Runs every scenario on `size` ranks, with one engine in each process. Returns for each rank
    {optimisations: {scenario: its answers, steps, exchanges, counts and hazards}}."""
    return ranks.run_ranks(device, size, folder, module=__name__)


def asked_of(setting: Setting, scenario: str, rank: int) -> list:
    """Returns the requests that this rank gets in the scenario. Rank 0 has the most work, except in
    the last scenario, in which no rank has any."""
    if scenario == "nobody has work":
        return []
    if scenario == "one looks back":
        words = {"bad_words": [[1, 2]]} if rank == 0 else {}
        return [setting.asked(9, 5, max_tokens=4 if rank == 0 else 1, **words)]
    if scenario == "one prefills":
        if rank:
            return [setting.asked(3, 7, max_tokens=6)]
        return [setting.asked(40, number, max_tokens=3) for number in range(4)]
    if rank:
        return [setting.asked(3, 7, max_tokens=2)] if scenario == "uneven" else []
    return [setting.asked(length, length, max_tokens=length % 5 + 1) for length in (20, 4, 13)]


def run_rank(rank: int, size: int, folder: Path) -> None:
    if os.environ["DEBUBBLE_DEVICE"] == "cuda":
        torch.cuda.set_device(rank)  # The accelerator is made for the current device.
    accelerator = debubble.accelerator()
    dist.init_process_group(
        ranks.BACKENDS[accelerator.name],
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=ranks.TIMEOUT_S / 2),
    )
    group = DataParallelGroup(dist.group.WORLD, size, ranks.MAX_TOKENS)
    setting = Setting.of(small("flex"), accelerator)
    seen = {}
    for name, optimizations in OPTIMIZATIONS.items():
        engine = Engine(setting.config, optimizations, model=setting.model, group=group)
        seen[name] = {
            scenario: run_scenario(accelerator, engine, setting, asked_of(setting, scenario, rank))
            for scenario in SCENARIOS
        }
    (folder / f"rank_{rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()


def run_scenario(accelerator, engine: Engine, setting: Setting, all_asked: list) -> dict:
    ids = [add(engine, asked) for asked in all_asked]
    steps, run = [], engine.runner.run
    run_ar = mock.Mock(wraps=engine.ranks.run_ar)

    def noted(batch, padded_rows=0):
        steps.append([batch.num_tokens, padded_rows])
        return run(batch, padded_rows)

    with (
        mock.patch.object(engine.runner, "run", noted),
        mock.patch.object(engine.ranks, "run_ar", run_ar),
        debubble.record(accelerator) as timeline,
    ):
        outputs = {output.request_id: output.token_ids for output in engine.run()}
    return {
        "answers": [outputs[request_id] for request_id in ids],
        "right": setting.answers(all_asked),
        "steps": steps,
        "exchanges": run_ar.call_count,
        "counts": timeline.counts(),
        "hazards": list(map(str, timeline.hazards)),
    }


if __name__ == "__main__":
    ranks.main(int(sys.argv[1]), Path(sys.argv[2]), run_rank)
