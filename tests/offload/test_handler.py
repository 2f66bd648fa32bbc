"""The handler: all bytes are right, transfers run in the order of the calls, and the host never
waits."""

from functools import partial

import pytest
import torch

import debubble
from solutions.offload.dma import copy_batch
from solutions.offload.handler import SingleDirectionOffloadingHandler
from solutions.offload.memory.host_memory import registered
from solutions.offload.memory.kv_tensors import KVGroup, KVTensors
from solutions.offload.swap_blocks import swap_blocks_batch
from solutions.offload.transfers import NUM_STREAMS
from tests.gate import LONG_MS, SHORT_MS, closed_gate
from tests.offload.kv_case import KVCase

SWAPS = {
    "selected": None,
    "dma": copy_batch,
    "kernel": partial(swap_blocks_batch, bytes_per_chunk=1024, min_n=0),
}

BOTH_DIRECTIONS = pytest.mark.parametrize("gpu_to_cpu", [False, True], ids=["load", "store"])


@pytest.fixture
def small(accelerator):
    """Returns a KVCase with so few bytes that a test of order can have many transfers."""
    return KVCase(accelerator, pages=(64,), num_tensors=2, num_gpu=16, num_cpu=16)


def transfer(handler, case, job_id, blocks, skip=0):
    handler.transfer_async(job_id, *blocks, skip)
    case.apply(*blocks, skip, gpu_to_cpu=handler.gpu_to_cpu)


def finished(handler, accelerator):
    accelerator.synchronize()
    return handler.get_finished()


@pytest.mark.parametrize(
    ("gpu_to_cpu", "swap"),
    [(False, "selected"), (False, "dma"), (False, "kernel"), (True, "selected"), (True, "dma")],
)
@pytest.mark.parametrize("mapping", ["random", "run", "reversed"])
@pytest.mark.parametrize("page", [512, 1024])
@pytest.mark.parametrize("factor", [1, 3])
def test_blocks_arrive(accelerator, gpu_to_cpu, swap, mapping, page, factor):
    case = KVCase(accelerator, factors=[factor], pages=[page])
    handler = case.handler(gpu_to_cpu=gpu_to_cpu, swap=SWAPS[swap])
    with debubble.record(accelerator) as timeline:
        transfer(handler, case, 0, case.blocks(3, mapping))
        handler.wait([0])
        (result,) = handler.get_finished()
    assert result == (0, True, 3 * factor * page * 4, None)
    case.expect()
    assert timeline.hazards == []


@BOTH_DIRECTIONS
@pytest.mark.parametrize("skip", [1, 2])
@pytest.mark.parametrize("last", [0, 1])
def test_a_first_block_may_be_skipped_in_part_and_a_last_one_too(
    accelerator, gpu_to_cpu, skip, last
):
    case = KVCase(accelerator, factors=[3], pages=[64], num_tensors=2)
    handler = case.handler(gpu_to_cpu=gpu_to_cpu)
    (gpu_blocks,), cpu_blocks = case.blocks(3, skip=skip)
    transfer(handler, case, 0, ([gpu_blocks[: len(gpu_blocks) - last]], cpu_blocks), skip)
    (result,) = finished(handler, accelerator)
    assert result.num_bytes == (9 - skip - last) * 64 * 2
    case.expect()


@BOTH_DIRECTIONS
@pytest.mark.parametrize("factor", [1, 3])
@pytest.mark.parametrize("copied_bytes", [8, 488, 13], ids=["a-word", "most-of-it", "odd"])
def test_less_than_a_row_may_be_copied(accelerator, gpu_to_cpu, factor, copied_bytes):
    case = KVCase(accelerator, factors=[factor], pages=[512], copied_bytes=copied_bytes)
    handler = case.handler(gpu_to_cpu=gpu_to_cpu)
    transfer(handler, case, 0, case.blocks(3, "run"))
    (result,) = finished(handler, accelerator)
    assert result.num_bytes == 3 * factor * copied_bytes * 4
    case.expect()


@BOTH_DIRECTIONS
def test_several_groups_with_pages_of_their_own(accelerator, gpu_to_cpu):
    case = KVCase(accelerator, factors=[1, 3, 2], pages=[64, 128, 192], num_tensors=3)
    handler = case.handler(gpu_to_cpu=gpu_to_cpu)
    gpu_blocks, cpu_blocks = case.blocks(3)
    transfer(handler, case, "all", (gpu_blocks, cpu_blocks))
    transfer(handler, case, "one", ([[], gpu_blocks[1], []], [[], cpu_blocks[1], []]))
    results = finished(handler, accelerator)
    assert [result.num_bytes for result in results] == [3 * 384 * 6, 3 * 384 * 3]
    case.expect()


def test_groups_may_skip_differently(accelerator):
    case = KVCase(accelerator, factors=[3, 3], pages=[64], num_tensors=1)
    handler = case.handler()
    handler.transfer_async(0, [[1, 2], [3]], [[5], [6]], skip=[1, 2])
    finished(handler, accelerator)
    for (gpu, cpu), (places, cpu_block, skip) in zip(
        case.wholes, [([1, 2], 5, 1), ([3], 6, 2)], strict=True
    ):
        arrived = gpu[1:-1][places].flatten().cpu()
        assert torch.equal(arrived, cpu[1:-1][cpu_block][64 * skip : 64 * (skip + len(places))])


def test_registered_memory_is_as_good_as_pinned(accelerator):
    gpu = torch.zeros((4, 4096), dtype=torch.int8, device=accelerator.device)
    with registered(torch.ones((4, 4096), dtype=torch.int8)) as cpu:
        for swap in SWAPS.values():
            handler = SingleDirectionOffloadingHandler(
                [KVGroup([KVTensors(gpu, cpu)])], gpu_to_cpu=False, swap=swap
            )
            gpu.zero_()
            handler.transfer_async(0, [[2]], [[3]])
            accelerator.synchronize()
            assert gpu.cpu().sum(1).tolist() == [0, 0, 4096, 0]


def test_no_blocks_are_a_transfer_too(accelerator, small):
    handler = small.handler()
    handler.transfer_async(5, [[]], [[]])
    assert finished(handler, accelerator) == [(5, True, 0, None)]
    small.expect()


def test_ids_may_come_as_arrays(accelerator, small):
    handler = small.handler()
    ids = torch.tensor([3, 1])
    handler.transfer_async(0, [ids.numpy()], [ids.to(torch.int32).numpy()])
    small.apply([[3, 1]], [[3, 1]], gpu_to_cpu=False)
    finished(handler, accelerator)
    small.expect()


def test_the_host_waits_for_nothing(accelerator, small):
    handlers = [small.handler(gpu_to_cpu=gpu_to_cpu) for gpu_to_cpu in (False, True)]

    def transfer_ten_times(gate):
        reported = []
        for job_id in range(10):
            for handler in handlers:
                handler.transfer_async(job_id, *small.blocks(2))
                reported += handler.get_finished()
        handlers[0].make_stream_wait([3])
        return gate.closed, reported

    with closed_gate(accelerator, SHORT_MS) as gate:  # Makes descriptors for all transfers.
        transfer_ten_times(gate)
    for handler in handlers:
        finished(handler, accelerator)
    with (
        debubble.record(accelerator) as timeline,
        debubble.no_host_syncs(),
        closed_gate(accelerator) as gate,
    ):
        goes_on, reported = transfer_ten_times(gate)
    assert goes_on, "the host waited for what was before the transfers"
    assert reported == [], "a transfer waits for what was before it"
    assert timeline.counts()["host_syncs"] == 0


def test_a_transfer_is_reported_once_and_in_order(accelerator, small):
    handler = small.handler()
    for job_id in (7, 3, 5):
        handler.transfer_async(job_id, *small.blocks(1))
    assert [result.job_id for result in finished(handler, accelerator)] == [7, 3, 5]
    assert handler.get_finished() == []
    handler.transfer_async(3, *small.blocks(1))
    assert [result.job_id for result in finished(handler, accelerator)] == [3]


def test_transfers_run_one_after_another(accelerator, small):
    """A transfer begins only after the transfer before it has ended, also on a different stream and
    if the first one takes a long time."""
    naps = iter([20.0, 0.0, 5.0, 0.0, 0.0, 1.0])

    def swap(*descriptors):
        accelerator.sleep(next(naps))
        copy_batch(*descriptors)

    handler = small.handler(swap=swap)
    for job_id in range(6):
        handler.transfer_async(job_id, *small.blocks(1))
    transfers = list(handler._in_flight.values())
    assert len({transfer.stream for transfer in transfers}) == NUM_STREAMS
    ended = [False]
    while not all(ended):
        # The order matters: first what has begun by now, then what has ended.
        begun = [transfer.start_event.query() for transfer in transfers]
        ended = [transfer.end_event.query() for transfer in transfers]
        for this_began, the_one_before_ended in zip(begun[1:], ended[:-1], strict=True):
            assert the_one_before_ended or not this_began
    assert [result.job_id for result in handler.get_finished()] == list(range(6))


def test_wait_is_for_these_and_no_others(accelerator, small):
    handler = small.handler(swap=copy_batch)

    def two_pairs_of_transfers(at_most_ms):
        """Queues transfers 0 and 1 behind one closed gate, and 2 and 3 behind another. Returns both
        gates."""
        gates = []
        for first in (0, 2):
            gates.append(closed_gate(accelerator, at_most_ms))
            for job_id in (first, first + 1):
                handler.transfer_async(job_id, *small.blocks(1))
        return gates

    two_pairs_of_transfers(SHORT_MS)  # Makes descriptors for all transfers.
    finished(handler, accelerator)
    first, second = two_pairs_of_transfers(LONG_MS)
    with first, second:
        handler.wait([])
        assert first.closed, "`wait([])` waited for a transfer"
        first.open()
        handler.wait({1, "of nobody"})
        assert second.closed, "the host waited for others than it was asked to"
        assert [result.job_id for result in handler.get_finished()] == [0, 1]
        second.open()
        handler.wait([3])
        assert [result.job_id for result in handler.get_finished()] == [2, 3]
        handler.wait([0, 3])


def test_whoever_drops_a_handler_waits_for_its_transfers(accelerator, small):
    """Deleting a handler waits for its transfers, which would otherwise write to memory that was
    freed with it."""
    handler = small.handler(gpu_to_cpu=True)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(20.0)
        transfer(handler, small, 0, small.blocks(1))
        del handler
        stored = [cpu.clone() for _, cpu in small.wholes]
    assert timeline.hazards == []
    for cpu, (_, right_cpu) in zip(stored, small.expected, strict=True):
        assert torch.equal(cpu, right_cpu)


@BOTH_DIRECTIONS
def test_a_transfer_waits_for_the_stream_that_it_was_told_of(accelerator, gpu_to_cpu):
    case = KVCase(accelerator, pages=[64], num_tensors=1, num_gpu=4, num_cpu=4)
    compute = accelerator.stream()
    handler = case.handler(gpu_to_cpu=gpu_to_cpu, compute_stream=compute)
    gpu = case.wholes[0][0]
    with debubble.record(accelerator) as timeline:
        with compute:
            accelerator.sleep(10.0)
            gpu.fill_(5)
        handler.transfer_async(0, [[1]], [[2]])
        accelerator.synchronize()
    assert timeline.hazards == []
    loaded = case.groups[0].tensors[0].cpu[2]
    assert torch.equal(gpu[1:-1][1].cpu(), loaded)
    assert bool((loaded == 5).all()) == gpu_to_cpu


def test_what_a_load_brings_is_read_behind_it(accelerator, small):
    """`make_stream_wait` makes a stream wait for the load on the device, so reads queued after it
    are right, and the host continues."""
    handler = small.handler(swap=_slowly(accelerator))
    gpu, cpu = small.groups[0].tensors[0].gpu, small.groups[0].tensors[0].cpu
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        handler.transfer_async(0, [[1]], [[2]])
        handler.make_stream_wait([0])
        read = gpu[1].clone()
        other = accelerator.stream()
        handler.make_stream_wait([0], other)
        with other:
            read_there = gpu[1].clone()
    assert timeline.hazards == []
    accelerator.synchronize()
    assert torch.equal(read.cpu(), cpu[2])
    assert torch.equal(read_there.cpu(), cpu[2])


@pytest.mark.sim
def test_without_that_wait_it_is_a_race(accelerator, small):
    handler = small.handler(swap=_slowly(accelerator))
    gpu = small.groups[0].tensors[0].gpu
    with debubble.record(accelerator) as timeline:
        handler.transfer_async(0, [[1]], [[2]])
        gpu[1].clone()
    assert {hazard.kind for hazard in timeline.hazards} == {"unordered_streams"}


def _slowly(accelerator):
    def swap(*descriptors):
        accelerator.sleep(10.0)
        copy_batch(*descriptors)

    return swap


def test_streams_events_and_buffers_are_used_again(accelerator, small, monkeypatch):
    made = {"stream": 0, "event": 0}
    for name in made:
        make = getattr(accelerator, name)

        def counting(make=make, name=name):
            made[name] += 1
            return make()

        monkeypatch.setattr(accelerator, name, counting)
    handler = small.handler(swap=copy_batch)
    for job_id in range(300):
        handler.transfer_async(job_id, *small.blocks(1))
        handler.wait([job_id])
        if job_id % 7 == 0:
            handler.get_finished()
    assert made["stream"] == NUM_STREAMS
    assert made["event"] <= 5
    assert handler.pool.num_buffers == 1


def test_descriptors_lie_in_the_pool_in_pinned_memory(accelerator, small):
    seen = []
    handler = small.handler(swap=lambda *columns: seen.append(columns))
    handler.transfer_async(0, [[4, 2]], [[1, 9]])
    (columns,) = seen
    assert [(column.dtype, len(column)) for column in columns] == [(torch.int64, 4)] * 3
    assert all(column.is_pinned() == accelerator.pin_memory for column in columns)
    transfer = handler._in_flight[0]
    batch = (transfer.batch_src, transfer.batch_dst, transfer.batch_sizes)
    assert [a.data_ptr() for a in columns] == [b.data_ptr() for b in batch]
    pair = small.groups[0].tensors[1]
    assert columns[0][2] == pair.cpu[1].data_ptr()
    assert columns[1][2] == pair.gpu[4].data_ptr()
    assert columns[2].tolist() == [64] * 4
