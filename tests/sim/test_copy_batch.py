"""Copies by address on sim: when their bytes arrive, what they cost, and copies in graphs."""

import gc

import numpy as np
import pytest
import torch

import debubble
from debubble.contract.capture_error import CaptureError
from debubble.contract.host_syncs import HostSyncError
from tests.sim.in_flight import expect_race, held_up, in_flight
from tests.sim.memory_pool import BLOCK, addresses, pool, sizes

pytestmark = pytest.mark.sim

POISON = 255


@pytest.fixture
def memory(accelerator):
    return pool(accelerator)


@pytest.fixture
def stream(accelerator):
    return accelerator.stream()


def kinds(timeline):
    return [(e.kind, e.copy_kind, e.bytes) for e in timeline.events if e.kind != "launch"]


def test_both_directions_in_one_batch_are_a_copy_each(accelerator, memory, stream):
    sources = np.concatenate([addresses(memory.host, [1, 2]), addresses(memory.device, [3])])
    targets = np.concatenate([addresses(memory.device, [5, 6]), addresses(memory.host, [7])])
    with debubble.record(accelerator) as timeline, stream:
        accelerator.copy_batch(sources, targets, sizes(3))
    copies = [("copy", "d2h", BLOCK), ("copy", "h2d_pinned", 2 * BLOCK)]
    assert sorted(kinds(timeline)) == copies
    assert memory.on_device() == [0, 0, 0, 0, 0, 1, 2, 0]
    assert memory.on_host() == [0, 1, 2, 3, 4, 5, 6, 0]


def test_device_memory_is_copied_on_the_device(accelerator, memory, stream):
    memory.device[2].fill_(7)
    stream.wait_stream(accelerator.current_stream())
    with debubble.record(accelerator) as timeline, stream:
        memory.copy(memory.device, [2, 2], memory.device, [0, 5])
    assert kinds(timeline) == [("copy", "d2d", 2 * BLOCK)]
    assert memory.on_device() == [7, 0, 7, 0, 0, 7, 0, 0]


def test_the_arrays_may_be_changed_at_once(accelerator, memory, stream):
    pieces = addresses(memory.host, [1]), addresses(memory.device, [1]), sizes(1)
    with held_up(accelerator, stream):
        accelerator.copy_batch(*pieces)
    for column in pieces:
        column.fill(0)
    stream.synchronize()
    assert memory.on_device()[1] == 1


def test_a_store_is_poison_until_it_is_done(accelerator, memory, stream):
    memory.device.fill_(9)
    with held_up(accelerator, stream):
        memory.store({0: 3, 1: 4})
    assert memory.on_host() == [0, 1, 2, POISON, POISON, 5, 6, 7]
    stream.synchronize()
    assert memory.on_host() == [0, 1, 2, 9, 9, 5, 6, 7]


def test_a_store_read_too_early_is_a_race_of_both_lines(accelerator, memory, stream):
    with debubble.record(accelerator) as timeline:
        with stream:
            memory.store({0: 3, 1: 4})
        memory.host[5].sum()
        memory.host[4].sum()  # the read
        stream.synchronize()
        memory.host[4].sum()
    expect_race(timeline, "read_before_sync", "accelerator.copy_batch", "# the read")


def test_a_load_takes_what_a_store_is_still_bringing(accelerator, memory, stream):
    """A load reads what an earlier store on the same stream wrote to host memory, although the host
    has seen nothing of the store yet."""
    with debubble.record(accelerator) as timeline:
        memory.device[1].fill_(9)
        with held_up(accelerator, stream):
            memory.store({1: 4})
            memory.load({4: 6, 5: 5})
            memory.store({6: 7})
            memory.load({7: 0})
        stream.synchronize()
    assert timeline.hazards == []
    assert memory.on_device() == [9, 9, 0, 0, 0, 5, 9, 0]
    assert memory.on_host() == [0, 1, 2, 3, 9, 5, 6, 9]


def test_memory_that_is_reused_on_the_device_is_no_race_of_the_host(accelerator, memory, stream):
    """A load from a host block and a later store to it are no race on one stream, if the host
    doesn't access the block in between."""
    with debubble.record(accelerator) as timeline:
        memory.device[2].fill_(9)
        with held_up(accelerator, stream):
            memory.load({3: 3})
            memory.store({2: 3})
            memory.load({3: 4})
        stream.synchronize()
    assert timeline.hazards == []
    assert memory.on_device() == [0, 0, 9, 3, 9, 0, 0, 0]
    assert memory.on_host()[3] == 9


def test_of_two_stores_to_one_place_the_later_one_stays(accelerator, memory, stream):
    memory.device[1].fill_(1)
    memory.device[2].fill_(2)
    accelerator.sleep(5)
    stream.wait_stream(accelerator.current_stream())
    half = BLOCK // 2
    with stream:
        memory.store({1: 5})
        accelerator.copy_bytes(memory.device[2].data_ptr(), memory.host[5].data_ptr(), half)
        first = stream.record_event()
        accelerator.sleep(5)
        memory.store({2: 5})
        memory.store({1: 6})
    first.synchronize()
    assert memory.host[5].tolist() == [POISON] * BLOCK
    stream.synchronize()
    assert memory.on_host()[5:7] == [2, 1]


def test_parts_of_two_stores_are_put_together(accelerator, memory, stream):
    memory.device[1].fill_(1)
    memory.device[2].fill_(2)
    accelerator.synchronize()
    half = BLOCK // 2
    with debubble.record(accelerator) as timeline:
        with stream:
            accelerator.sleep(5)
            memory.store({1: 5})
            first = stream.record_event()
            accelerator.sleep(5)
            accelerator.copy_bytes(memory.device[2].data_ptr(), memory.host[5].data_ptr(), half)
            memory.load({5: 0})
        assert memory.host.numpy()[5].tolist() == [POISON] * BLOCK
        first.synchronize()
        assert memory.host.numpy()[5].tolist() == [POISON] * half + [1] * half
        stream.synchronize()
    assert {hazard.kind for hazard in timeline.hazards} == {"read_before_sync"}
    together = [2] * half + [1] * half
    assert memory.host[5].tolist() == together
    assert memory.device[0].tolist() == together


def test_a_source_overwritten_too_early_brings_the_new_bytes(accelerator, memory, stream):
    doubled = torch.zeros(8, BLOCK, dtype=torch.uint8, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        with held_up(accelerator, stream):
            memory.load({2: 2, 3: 3})  # the load
            doubled.copy_(memory.device).mul_(2)
            memory.copy(doubled, [3], memory.host, [7])
        memory.host[3:5].fill_(50)
        memory.host[3].fill_(60)  # the write
        stream.synchronize()
    expect_race(timeline, "overwritten_in_flight", "accelerator.copy_batch", "# the write")
    assert memory.on_device()[2:4] == [2, 60]
    assert doubled.cpu()[:, 0].tolist()[2:4] == [4, 120]
    assert memory.on_host()[7] == 120


def test_new_bytes_go_on_through_host_memory(accelerator, memory, stream):
    """The new bytes of a load's source that was overwritten in flight also reach the copies after
    it: a store of the loaded block, and a load of the stored one."""
    with debubble.record(accelerator) as timeline:
        with held_up(accelerator, stream):
            memory.load({2: 2})
            memory.store({2: 5})
            memory.load({5: 6})
        memory.host[2].fill_(60)
        stream.synchronize()
    assert [hazard.kind for hazard in timeline.hazards] == ["overwritten_in_flight"]
    assert memory.on_device() == [0, 0, 60, 0, 0, 0, 60, 0]
    assert memory.on_host()[5] == 60


def test_a_block_that_arrived_and_is_overwritten_before_it_is_loaded(accelerator, memory, stream):
    memory.device[1].fill_(9)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        with stream:
            accelerator.sleep(1)
            memory.store({1: 5})
            stored = stream.record_event()
            accelerator.sleep(5)
            memory.load({5: 6})
        stored.synchronize()
        assert memory.on_host()[5] == 9
        memory.host[5].fill_(60)
        stream.synchronize()
    assert [hazard.kind for hazard in timeline.hazards] == ["overwritten_in_flight"]
    assert memory.on_device()[6] == 60


def test_a_source_overwritten_when_the_load_is_done_is_no_race(accelerator, memory, stream):
    with debubble.record(accelerator) as timeline:
        with stream:
            memory.load({2: 2})
        stream.synchronize()
        memory.host[2].fill_(50)
        accelerator.synchronize()
        memory.device.add_(1)
    assert timeline.hazards == []
    assert memory.on_device()[2] == 3


def test_pageable_memory_is_the_hosts_again_at_once(accelerator, memory):
    plain = torch.full((BLOCK,), 7, dtype=torch.uint8)
    with in_flight(accelerator) as timeline:
        memory.host[0].to(accelerator.device, non_blocking=True)
        accelerator.copy_bytes(plain.data_ptr(), memory.device.data_ptr(), BLOCK)
        plain.fill_(8)
        memory.host[0].fill_(1)
    assert timeline.counts()["h2d_pageable"] == 1
    assert [hazard.kind for hazard in timeline.hazards] == ["overwritten_in_flight"]
    assert memory.on_device()[0] == 7


def test_a_store_to_pageable_memory_keeps_the_host(accelerator, memory):
    plain = torch.zeros(BLOCK, dtype=torch.uint8)
    with debubble.record(accelerator) as timeline:
        memory.device.fill_(9)
        accelerator.sleep(5)
        accelerator.copy_bytes(memory.device.data_ptr(), plain.data_ptr(), BLOCK)
        assert plain.tolist() == [9] * BLOCK
    (copy,) = [event for event in timeline.events if event.kind == "copy"]
    assert copy.pageable and copy.copy_kind == "d2h"
    assert timeline.events[copy.launched_by].duration > 5000
    assert timeline.counts()["host_syncs"] == 0


def test_where_the_host_may_not_wait_pageable_memory_is_refused(accelerator, memory, stream):
    plain = torch.zeros(BLOCK, dtype=torch.uint8)
    with debubble.no_host_syncs(), stream:
        memory.load({1: 1})
        memory.store({1: 2})
        for source, target in ((plain, memory.device[3]), (memory.device[3], plain)):
            with pytest.raises(HostSyncError, match="pageable host memory"):
                accelerator.copy_bytes(source.data_ptr(), target.data_ptr(), BLOCK)
    stream.synchronize()
    assert memory.on_device() == [0, 1, 0, 0, 0, 0, 0, 0]


def host_us(accelerator, call):
    with debubble.record(accelerator) as timeline:
        call()
    (launch,) = [event for event in timeline.events if event.kind == "launch"]
    (copy,) = [event for event in timeline.events if event.kind == "copy"]
    return launch.duration, copy.duration


def test_small_pieces_cost_the_host_more_than_large_ones(accelerator, stream):
    cost = accelerator._device.cost
    cliff = int(cost.batch_cliff_bytes)
    device = torch.empty(64 * cliff, dtype=torch.uint8, device=accelerator.device)
    host = torch.empty(64 * cliff, dtype=torch.uint8, pin_memory=True)

    def copied(nbytes, count):
        starts = np.arange(count, dtype=np.int64) * nbytes
        pieces = starts + host.data_ptr(), starts + device.data_ptr(), sizes(count, nbytes)
        with stream:
            return host_us(accelerator, lambda: accelerator.copy_batch(*pieces))

    one = host_us(
        accelerator, lambda: accelerator.copy_bytes(host.data_ptr(), device.data_ptr(), cliff)
    )
    assert one[0] == pytest.approx(cost.copy_call_us)
    assert one[1] == pytest.approx(cost.copy_us + cliff / cost.h2d_bandwidth)
    small, large = copied(cliff - 8, 64), copied(cliff, 64)
    assert small[0] == pytest.approx(cost.copy_call_us + 64 * cost.small_piece_call_us)
    assert large[0] == pytest.approx(cost.copy_call_us + 64 * cost.large_piece_call_us)
    assert large[1] == pytest.approx(
        cost.copy_us + 64 * (cost.piece_us + cliff / cost.h2d_bandwidth)
    )
    assert small[0] > large[0]


def test_a_graph_moves_the_bytes_that_are_there_at_its_replays(accelerator, memory, stream):
    graph = accelerator.graph()
    with debubble.record(accelerator) as captured, graph.capture(), stream:
        memory.load({2: 0})
        memory.store({0: 5})
    assert not captured.counts()["h2d_pinned"] + captured.counts()["d2h"]
    assert memory.on_device()[0] == 0 and memory.on_host()[5] == 5
    for value in (40, 41):
        memory.host[2].fill_(value)
        with debubble.record(accelerator) as timeline:
            graph.replay()
            assert memory.host.numpy()[5, 0] == POISON
            accelerator.synchronize()
        counts = timeline.counts()
        assert (counts["graph_launches"], counts["h2d_pinned"], counts["d2h"]) == (1, 1, 1)
        assert [hazard.kind for hazard in timeline.hazards] == ["read_before_sync"]
        assert memory.on_device()[0] == memory.on_host()[5] == value


def test_what_a_replay_reads_may_not_be_overwritten_before_it_did(accelerator, memory, stream):
    graph = accelerator.graph()
    with graph.capture(), stream:
        memory.load({2: 0})
    with in_flight(accelerator) as timeline:
        graph.replay()
        memory.host[2].fill_(50)
    assert [hazard.kind for hazard in timeline.hazards] == ["overwritten_in_flight"]
    assert memory.on_device()[0] == 50


def test_a_capture_takes_no_pageable_memory(accelerator, memory):
    plain = torch.zeros(BLOCK, dtype=torch.uint8)
    graph = accelerator.graph()
    with graph.capture():
        for source, target in ((plain, memory.device[3]), (memory.device[3], plain)):
            with pytest.raises(CaptureError, match="pageable host memory"):
                accelerator.copy_bytes(source.data_ptr(), target.data_ptr(), BLOCK)


def test_a_graph_whose_memory_was_freed_is_a_hazard(accelerator, stream):
    graph = accelerator.graph()
    memory = pool(accelerator)
    host = memory.host
    with graph.capture(), stream:
        memory.load({1: 1})  # captured
    del memory
    with debubble.record(accelerator) as timeline:
        graph.replay()
    expect_race(timeline, "graph_input_freed", "accelerator.copy_batch")
    assert host[1].tolist() == [1] * BLOCK


def test_pinned_memory_may_be_dropped_while_it_is_read(accelerator):
    device = torch.zeros(64, BLOCK, dtype=torch.uint8, device=accelerator.device)
    stream = accelerator.stream()
    accelerator.sleep(5)
    stream.wait_stream(accelerator.current_stream())
    for block in range(64):
        host = torch.full((BLOCK,), block, dtype=torch.uint8, pin_memory=True)
        with stream:
            accelerator.copy_bytes(host.data_ptr(), device[block].data_ptr(), BLOCK)
        del host
        gc.collect(0)
    stream.synchronize()
    assert device.cpu()[:, 0].tolist() == list(range(64))


def test_a_hundred_thousand_pieces_are_one_copy(accelerator, stream):
    count = 100_000
    host = torch.arange(count, dtype=torch.int64).pin_memory()
    device = torch.zeros(count, dtype=torch.int64, device=accelerator.device)
    accelerator.synchronize()
    to = np.random.default_rng(0).permutation(count)
    sources = host.data_ptr() + 8 * np.arange(count)
    with debubble.record(accelerator) as timeline, stream:
        accelerator.copy_batch(sources, device.data_ptr() + 8 * to, sizes(count, 8))
    assert timeline.counts()["h2d_pinned"] == 1
    expected = torch.empty(count, dtype=torch.int64)
    expected[torch.from_numpy(to)] = torch.arange(count)
    assert torch.equal(device.cpu(), expected)


def test_many_transfers_over_a_small_pool_are_exact_and_leave_nothing(accelerator):
    """600 alternating loads and stores through 16 blocks are right and leave no work in flight.
    Each waits on the device for the last one, and the host never waits."""
    memory = pool(accelerator, 16)
    device, host = np.zeros(16, np.uint8), np.arange(16, dtype=np.uint8)
    streams = [accelerator.stream() for _ in range(4)]
    random = np.random.default_rng(1)
    with debubble.record(accelerator) as timeline:
        last = accelerator.current_stream().record_event()
        for number in range(600):
            stream = streams[number % 4]
            stream.wait_event(last)
            from_, to = (random.choice(16, 3, replace=False).tolist() for _ in range(2))
            blocks = dict(zip(from_, to, strict=True))
            with stream:
                if number % 2:
                    memory.store(blocks)
                    host[to] = device[from_]
                else:
                    memory.load(blocks)
                    device[to] = host[from_]
            last = stream.record_event()
        last.synchronize()
    assert timeline.hazards == []
    assert memory.on_device() == device.tolist()
    assert memory.on_host() == host.tolist()
    in_flight = accelerator._device.in_flight
    assert not in_flight.uploads and not in_flight.downloads and not in_flight.tape.steps


def test_work_behind_a_chain_of_loads_is_kept_no_longer_than_it_must(accelerator, memory, stream):
    """Sim forgets finished work during a chain of 3000 kernels and loads, although some work is in
    flight all the time."""
    in_flight, kept = accelerator._device.in_flight, []
    total = torch.zeros(8, BLOCK, dtype=torch.uint8, device=accelerator.device)
    for number in range(3000):
        if number % 100 == 0:
            accelerator.sleep(1.5)
            memory.host[1].to(accelerator.device, non_blocking=True)
        total.add_(memory.device)
        assert in_flight.uploads
        kept.append(sum(len(tape.steps) for tape in in_flight._tapes))
    assert max(kept) < 1500
    accelerator.synchronize()
    assert not in_flight.uploads and not in_flight.tape.steps


def test_all_behind_a_race_is_run_again_however_much_it_is(accelerator, memory, stream):
    one = torch.ones(BLOCK, dtype=torch.uint8, device=accelerator.device)
    copies = []
    with in_flight(accelerator, 50) as timeline:
        accelerator.copy_bytes(memory.host[1].data_ptr(), memory.device[1].data_ptr(), BLOCK)
        for number in range(400):
            memory.device[1].add_(one)
            if number % 100 == 0:
                copies.append(memory.device[1].clone())
        for copy in copies:
            copy.mul_(2)
        memory.host[1].fill_(30)
    assert [hazard.kind for hazard in timeline.hazards] == ["overwritten_in_flight"]
    assert memory.on_device()[1] == (30 + 400) % 256
    assert [copy[0].item() for copy in copies] == [2 * (31 + n) % 256 for n in (0, 100, 200, 300)]


def test_stores_over_stores_under_way_take_no_more_room(accelerator, memory, stream):
    with held_up(accelerator, stream, 50):
        for number in range(200):
            memory.store({number % 8: number % 3})
    assert len(accelerator._device.in_flight.downloads._table) == 3
    stream.synchronize()
    assert memory.on_host() == [0, 0, 0, 3, 4, 5, 6, 7]


def test_lists_are_copied_from_where_they_lie(accelerator):
    source = torch.arange(64, dtype=torch.uint8).pin_memory()
    target = torch.zeros(64, dtype=torch.uint8, device=accelerator.device)
    starts = torch.tensor([8, 40])
    lists = torch.stack([source.data_ptr() + starts, target.data_ptr() + starts, starts // 8])
    with accelerator.stream():
        accelerator.copy_lists(*(row.data_ptr() for row in lists), 2)
        lists.zero_()
    accelerator.synchronize()
    assert target.cpu().nonzero().flatten().tolist() == [8, *range(40, 45)]
