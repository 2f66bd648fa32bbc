"""A warm step of each lesson compiles nothing and asks the driver for no memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from debubble.sim.memory import caching
from solutions.flex_graph.measure.decode_step import FlexWorkload
from solutions.flex_graph.step import FlexStep
from solutions.flex_graph.steps.workload import Requests
from solutions.gdn.model.config import GDNConfig
from solutions.gdn.step import GDNStep
from solutions.host_bound import StepServer, buckets_up_to
from solutions.host_bound.batch import mixed_batch
from solutions.offload import KVGroup, KVTensors, SingleDirectionOffloadingHandler, pinned_blocks
from solutions.pinned_h2d.model.config import ImageStepConfig
from solutions.pinned_h2d.step import ImageSteps
from solutions.sync_free.model.config import StepConfig
from solutions.sync_free.model.model import ConvModel
from solutions.sync_free.model.workload import Workload
from solutions.sync_free.step import DecodeStep
from tests.scheduling import schedule_only
from tests.warm_steps import SIZES, expecting_nothing_new

pytestmark = pytest.mark.sim
STEPS = 20
READ = {"own_column_kernel"}
"""The kernels whose results the host checks. The others are counted, and do not run."""


def image_steps(device):
    config = replace(ImageStepConfig.small(), num_layers=1, num_requests=2, tokens_per_request=33)
    steps = ImageSteps(config, device)
    return lambda size: steps.step(*steps.make_batch([range(size), range(1)]))


def decode_steps(device):
    config = StepConfig.small()
    step, scheduled = DecodeStep(ConvModel(config, device)), Workload(config).steps(10**6)
    return lambda size: step.run(next(scheduled))


def prefill_steps(device):
    step = GDNStep(replace(GDNConfig.small(), num_layers=1), device)
    return lambda size: step.run(step.schedule([1, size, 33 - size], [5, 0, 0]))


def flex_steps(device):
    workload = replace(FlexWorkload.narrow(), num_layers=1)
    step = FlexStep(workload, workload.limits(), device, capture_sizes=(1, 2))
    requests = Requests(workload.limits(), vocab_size=workload.vocab_size)
    return lambda size: step.run(requests.batch([range(size, size + 1), range(0, size % 2)]))


def server_steps(device):
    server = StepServer(2, 16, 2, 2048, buckets_up_to(SIZES[-1]))
    hidden = torch.ones(SIZES[-1], 16, device=device)
    return lambda size: server.step(mixed_batch([size], 2), hidden[:size])


def block_loads(device):
    gpu = torch.zeros((40, 4096), dtype=torch.int8, device=device)
    pair = KVTensors(gpu, pinned_blocks(40, 4096))
    handler = SingleDirectionOffloadingHandler([KVGroup([pair])], gpu_to_cpu=False)

    def load(size):
        handler.transfer_async(size, [range(size)], [range(size)])
        handler.wait({size})
        handler.get_finished()

    return load


SYSTEMS = (image_steps, decode_steps, prefill_steps, flex_steps, server_steps, block_loads)


@pytest.mark.parametrize("make", SYSTEMS, ids=lambda make: make.__name__)
def test_a_warm_step_compiles_and_allocates_nothing(accelerator, pytestconfig, make):
    caching.DEVICE.begin(int)
    with schedule_only(accelerator, READ):
        step, random = make(accelerator.device), np.random.default_rng(0)
        for size in 2 * SIZES:
            step(size)
        with expecting_nothing_new():
            for _ in range(10_000 if pytestconfig.getoption("deep") else STEPS):
                step(int(random.choice(SIZES)))
