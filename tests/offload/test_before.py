"""The handler before the change: the same bytes in the same order, by one DMA batch a transfer."""

import pytest

import debubble
from solutions.offload import before
from solutions.offload.handler import SingleDirectionOffloadingHandler
from tests.offload.kv_case import KVCase

BOTH_DIRECTIONS = pytest.mark.parametrize("gpu_to_cpu", [False, True], ids=["load", "store"])


def transfer(handler, case, job_id, blocks, skip=0):
    handler.transfer_async(job_id, *blocks, skip)
    case.apply(*blocks, skip, gpu_to_cpu=handler.gpu_to_cpu)


@BOTH_DIRECTIONS
def test_a_transfer_is_one_batch_with_each_block_of_each_tensor(accelerator, gpu_to_cpu):
    case = KVCase(accelerator, factors=[1, 3], pages=[64], num_tensors=2)
    handlers = {
        "before": before.SingleDirectionOffloadingHandler(case.groups, gpu_to_cpu=gpu_to_cpu),
        "after": SingleDirectionOffloadingHandler(case.groups, gpu_to_cpu=gpu_to_cpu),
    }
    lengths = {}
    for name, handler in handlers.items():
        with debubble.record(accelerator) as timeline:
            transfer(handler, case, 0, case.blocks(4, "run"))
            lengths[name] = len(handler._in_flight[0].batch_src)
        case.expect()
        counts = timeline.counts()
        if name == "before" and accelerator.has_copy_batch:
            assert counts["kernels"] == counts["host_syncs"] == 0
            assert counts["d2h" if gpu_to_cpu else "h2d_pinned"] == 1
    assert lengths == {"before": 4 * 2 + 12 * 2, "after": 4}


@BOTH_DIRECTIONS
@pytest.mark.parametrize("mapping", ["random", "run"])
def test_the_bytes_are_the_same(accelerator, gpu_to_cpu, mapping):
    case = KVCase(accelerator, factors=[3], pages=[512, 1024], copied_bytes=500)
    handler = before.SingleDirectionOffloadingHandler(case.groups, gpu_to_cpu=gpu_to_cpu)
    with debubble.record(accelerator) as timeline:
        for job_id in range(5):
            transfer(handler, case, job_id, case.blocks(3, mapping, skip=1), skip=1)
        handler.wait([4])
        results = handler.get_finished()
    assert [(result.job_id, result.error) for result in results] == [(i, None) for i in range(5)]
    case.expect()
    assert timeline.hazards == []


def test_it_waits_for_the_compute_stream_too(accelerator):
    """A load by the handler before the change waits for the compute stream too, and its bytes are
    right. It is slow because of how it copies."""
    case = KVCase(accelerator, pages=[64], num_tensors=1, num_gpu=4, num_cpu=4)
    compute = accelerator.stream()
    handler = before.SingleDirectionOffloadingHandler(
        case.groups, gpu_to_cpu=False, compute_stream=compute
    )
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        with compute:
            accelerator.sleep(10.0)
            case.groups[0].tensors[0].gpu[1].zero_()
        transfer(handler, case, 0, ([[1]], [[2]]))
        accelerator.synchronize()
    assert timeline.hazards == []
    case.expect()


def test_loads_have_a_name_of_their_own(accelerator):
    case = KVCase(accelerator, pages=[64], num_tensors=2, num_gpu=16, num_cpu=16)
    handler = before.loading_handler(case.groups)
    assert not handler.gpu_to_cpu
    transfer(handler, case, 0, case.blocks(3))
    accelerator.synchronize()
    assert handler.get_finished() == [(0, True, 3 * 64 * 2, None)]
    case.expect()
