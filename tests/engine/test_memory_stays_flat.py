"""Memory stays flat over thousands of steps, transfers and metadata builds."""

import pytest

from solutions.engine import Optimizations, SamplingParams
from solutions.engine.requests.workload import make_prompt
from solutions.gdn.metadata import GDNAttentionMetadataBuilder
from solutions.offload.selection import DmaSwap
from tests.gdn.batches import Requests
from tests.memory_in_use import expect_flat
from tests.offload.kv_case import KVCase

from .setting import small
from .symbolic_device import symbolic_engine

pytestmark = pytest.mark.sim
FEW = {"max_num_seqs": 3, "max_num_batched_tokens": 40, "max_model_len": 48, "num_gpu_blocks": 5}
COUNTS = pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.deep)])
"""The number of calls in each half of a test. Deep tests make 10,000 calls in all."""


@COUNTS
def test_of_an_engine_that_loads_stores_preempts_and_cancels(accelerator, count):
    config = small("gdn", "flex", "spans", limits=FEW, num_cpu_blocks=6, num_cpu_states=2)
    engine = symbolic_engine(config, Optimizations())
    prompts = [make_prompt(config.model, length, seed=length) for length in (9, 14, 34, 40)]

    def step(number):
        if len(engine.requests) < 4:
            prompt = prompts[number % len(prompts)]
            name = engine.add_request(prompt.tokens, SamplingParams(max_tokens=1 + number % 5))
            if not number % 7:
                engine.cancel(name)
        engine.step()
        for handler in (engine.offloader.load, engine.offloader.store):
            handler.end(1)

    expect_flat(step, count)
    assert engine.scheduler.num_preemptions > 0


@COUNTS
def test_of_a_handler_whose_transfers_are_reported(accelerator, count):
    case = KVCase(accelerator, num_tensors=2, num_gpu=8, num_cpu=8)
    handler = case.handler(swap=DmaSwap(any_order=True))

    def transfer(number):
        handler.transfer_async(number, [[number % 8]], [[number % 5]])
        accelerator.synchronize()
        (result,) = handler.get_finished()
        assert result.success

    expect_flat(transfer, count)
    assert handler.pool.num_buffers <= 2


@COUNTS
def test_of_a_builder_of_metadata(accelerator, count):
    builder = GDNAttentionMetadataBuilder(accelerator.device)
    batches = [Requests.of(lens) for lens in ([1, 1, 70], [1, 130], [3, 64, 65], [1])]
    given = [batch.common(accelerator) for batch in batches]
    expect_flat(lambda number: builder.build(given[number % len(given)]), count)
