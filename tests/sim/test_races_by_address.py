"""Races between accesses by address: found by the bytes that they touch."""

import weakref

import numpy as np
import pytest
import torch

import debubble
from debubble.accelerator import ByAddress, Work
from debubble.sim.memory.access_log import AccessLog, Touch
from debubble.sim.memory.blocks import Access, DeviceBlock
from debubble.sim.memory.chosen import Chosen
from debubble.sim.memory.range_table import RangeTable
from tests.sim.in_flight import expect_race, kinds
from tests.sim.memory_pool import BLOCK, addresses, pool, sizes

pytestmark = pytest.mark.sim


@pytest.fixture
def memory(accelerator):
    return pool(accelerator)


@pytest.fixture
def side(accelerator):
    return accelerator.stream()


@pytest.fixture
def other(accelerator):
    return accelerator.stream()


RACE = ["unordered_streams"]


def by_kernel(accelerator, memory, source, from_, target, to):
    """Launches a kernel that is said to copy blocks `from_` of `source` to blocks `to` of `target`
    by address, but that moves nothing."""
    pieces = ByAddress(addresses(source, from_), addresses(target, to), sizes(len(to)))
    accelerator.launch(lambda: None, None, work=Work(by_address=pieces))


def by_batch(accelerator, memory, source, from_, target, to):
    memory.copy(source, from_, target, to)


@pytest.fixture(params=[by_kernel, by_batch], ids=["kernel", "batch"])
def move(request, accelerator, memory):
    return lambda *pieces: request.param(accelerator, memory, *pieces)


def test_two_loads_into_one_block_name_both_lines(accelerator, memory, side, other):
    with debubble.record(accelerator) as timeline:
        with side:
            memory.copy(memory.host, [1], memory.device, [1])
        with other:
            accelerator.copy_bytes(  # the second
                memory.host[2].data_ptr(), memory.device[1].data_ptr() + BLOCK - 1, 1
            )
    hazard = expect_race(timeline, "unordered_streams", "accelerator.copy_batch", "# the second")
    assert "on stream 2 what is written on stream 1" in str(hazard)


TWO_COPIES = {
    "loads into different blocks": ("load", [1, 3], [1, 3], "load", [1, 3], [0, 2], None),
    "a load and a store of different blocks": ("load", [1, 3], [1, 3], "store", [4], [4], None),
    "a store of a block that is being loaded": ("load", [1], [5], "store", [5], [6], "written"),
    "a load into a block that is being stored": ("store", [5], [6], "load", [1], [5], "read"),
    "a load of a host block that is being stored": (
        "store",
        [5],
        [6],
        "load",
        [6],
        [1],
        "written",
    ),
    "two loads of one host block": ("load", [1], [1], "load", [1], [2], None),
}
"""Two copies on two streams, (way, from blocks, to blocks) each, and what the first one did to
what they race for, or None."""


@pytest.mark.parametrize("what", TWO_COPIES)
def test_two_copies_race_if_one_writes_what_the_other_touches(accelerator, memory, move, what):
    tensors = {"load": (memory.host, memory.device), "store": (memory.device, memory.host)}
    *copies, raced_for = TWO_COPIES[what]
    with debubble.record(accelerator) as timeline:
        for way, from_, to in (copies[:3], copies[3:]):
            (source, target), stream = tensors[way], accelerator.stream()
            with stream:
                move(source, from_, target, to)
    assert kinds(timeline) == RACE * bool(raced_for)
    assert all(f"what is {raced_for} on" in str(hazard) for hazard in timeline.hazards)


def until(done):
    while not done():
        pass


def through_another_stream(side, other):
    third = debubble.accelerator().stream()
    third.wait_stream(side)
    other.wait_stream(third)


ORDERS = {
    "event": lambda side, other: other.wait_event(side.record_event()),
    "stream": lambda side, other: other.wait_stream(side),
    "host": lambda side, other: side.record_event().synchronize(),
    "event query": lambda side, other: until(side.record_event().query),
    "stream query": lambda side, other: until(side.query),
    "through another stream": through_another_stream,
}


@pytest.mark.parametrize("order", ORDERS)
def test_waiting_orders_them(accelerator, memory, move, side, other, order):
    with debubble.record(accelerator) as timeline:
        with side:
            move(memory.host, [1], memory.device, [1])
        ORDERS[order](side, other)
        with other:
            move(memory.host, [2], memory.device, [1])
    assert timeline.hazards == []


@pytest.mark.parametrize("order", ["a query that says no", "an event from before"])
def test_what_orders_nothing(accelerator, memory, side, other, order):
    with debubble.record(accelerator) as timeline:
        event = side.record_event()
        with side:
            accelerator.sleep(5)
            memory.load({1: 1})
        if order == "an event from before":
            other.wait_event(event)
        else:
            assert not side.record_event().query() and not side.query()
        with other:
            memory.load({2: 1})
    assert kinds(timeline) == RACE


OPERATORS = {
    "zero": lambda memory: memory.device[3].zero_(),
    "copy": lambda memory: memory.device[3].copy_(memory.device[0]),
    "upload": lambda memory: memory.device[3].copy_(memory.host[0], non_blocking=True),
    "read": lambda memory: memory.device[3] + 1,
    "download": lambda memory: memory.device[3].to("cpu", non_blocking=True),
    "strided": lambda memory: memory.device[2:4, ::2].zero_(),
}


@pytest.mark.parametrize(("block", "races"), [(3, RACE), (5, [])], ids=["on it", "beside it"])
@pytest.mark.parametrize("first", ["operator", "load"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_and_the_block_of_a_load(
    accelerator, memory, side, operator, first, block, races
):
    with debubble.record(accelerator) as timeline:
        if first == "operator":
            OPERATORS[operator](memory)
        with side:
            memory.load({1: block})
        if first == "load":
            OPERATORS[operator](memory)
    assert kinds(timeline) == races


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_that_a_load_waits_for(accelerator, memory, side, operator):
    with debubble.record(accelerator) as timeline:
        OPERATORS[operator](memory)
        side.wait_stream(accelerator.current_stream())
        with side:
            memory.load({1: 3})
        accelerator.current_stream().wait_stream(side)
        OPERATORS[operator](memory)
    assert timeline.hazards == []


@pytest.mark.parametrize("any_order", [False, True])
def test_in_any_order_a_source_is_read_before_the_stream_gets_there(
    accelerator, memory, side, any_order
):
    pieces = addresses(memory.host, [4]), addresses(memory.device, [1]), sizes(1)
    with debubble.record(accelerator) as timeline, side:
        memory.store({2: 4})
        accelerator.copy_batch(*pieces, any_order=any_order)
    assert kinds(timeline) == RACE * any_order
    assert all("before its stream gets there" in str(hazard) for hazard in timeline.hazards)


def test_in_any_order_a_source_that_the_host_knows_of_is_there(accelerator, memory, side):
    pieces = addresses(memory.host, [4]), addresses(memory.device, [1]), sizes(1)
    with debubble.record(accelerator) as timeline, side:
        memory.store({2: 4})
        until(side.query)
        accelerator.copy_batch(*pieces, any_order=True)
        memory.store({1: 4})
    assert timeline.hazards == []


def test_the_first_use_by_address_knows_what_was_under_way(accelerator, side):
    """A race with the first access to a tensor by address is found, although no address of the
    tensor was needed before."""
    host = torch.ones(8, BLOCK, dtype=torch.uint8, pin_memory=True)
    with debubble.record(accelerator) as timeline:
        cache = torch.zeros(8, BLOCK, dtype=torch.uint8, device=accelerator.device)
        with side:
            accelerator.copy_bytes(host.data_ptr(), cache[3].data_ptr(), BLOCK)
    assert kinds(timeline) == RACE


def test_a_result_is_written_until_its_operator_is_done(accelerator, memory, side):
    with debubble.record(accelerator) as timeline:
        made = memory.device + 1
        with side:
            memory.copy(made, [2], memory.host, [2])
    assert kinds(timeline) == RACE


@pytest.mark.parametrize("first", ["tensor", "address"])
def test_copies_of_pinned_tensors_and_pinned_addresses(accelerator, memory, side, first):
    copies = [
        lambda: memory.host[3].copy_(memory.device[0], non_blocking=True),
        lambda: memory.load({3: 1}),
    ]
    with debubble.record(accelerator) as timeline:
        if first == "tensor":
            copies[0]()
        with side:
            copies[1]()
        if first == "address":
            copies[0]()
    assert "unordered_streams" in kinds(timeline)


def test_a_pinned_tensor_copied_beside_a_pinned_address(accelerator, memory, side):
    with debubble.record(accelerator) as timeline:
        memory.host[4].copy_(memory.device[0], non_blocking=True)
        with side:
            memory.load({3: 1})
        memory.host[5].copy_(memory.device[0], non_blocking=True)
        accelerator.synchronize()
    assert timeline.hazards == []


def test_a_kernel_or_an_index_on_the_whole_cache_accuses_nobody(accelerator, memory, side):
    """Kernels and indexing on a whole cache are no race with a load of one block: they don't say
    which blocks they touch, and loads overlap them on purpose."""
    index = torch.tensor([2], device=accelerator.device)
    row = torch.ones(1, BLOCK, dtype=torch.uint8, device=accelerator.device)
    accelerator.synchronize()

    def compute():
        accelerator.launch(lambda cache: None, None, memory.device)
        accelerator.launch(lambda cache, pinned: None, None, memory.device, memory.host[0])
        memory.device.index_copy_(0, index, row)
        memory.device[index] = row
        memory.device.index_select(0, index)

    with debubble.record(accelerator) as timeline:
        compute()
        with side:
            memory.load({1: 3})
        compute()
    assert timeline.hazards == []


def test_an_operator_on_the_whole_cache_touches_every_block(accelerator, memory, side):
    with debubble.record(accelerator) as timeline:
        with side:
            memory.load({1: 3})
        memory.device.add_(1)
    assert kinds(timeline) == RACE


@pytest.mark.parametrize("rows", [(0, 0), (0, 5)])
def test_two_operators_are_compared_by_their_bytes(accelerator, memory, side, rows):
    with side:
        memory.load({1: 3})
    never_by_address = torch.zeros(8, BLOCK, dtype=torch.uint8, device=accelerator.device)
    accelerator.synchronize()
    found = []
    for cache in (memory.device, never_by_address):
        with debubble.record(accelerator) as timeline:
            cache[rows[0]].zero_()
            with side:
                cache[rows[1]].zero_()
        found.append(kinds(timeline))
        accelerator.synchronize()
    assert found == [RACE * (rows == (0, 0))] * 2


def test_memory_that_comes_again_has_no_past(accelerator, side):
    host = torch.ones(4096, dtype=torch.uint8, pin_memory=True)
    with debubble.record(accelerator) as timeline:
        for _ in range(20):
            with accelerator.stream():
                cache = torch.empty(4096, dtype=torch.uint8, device=accelerator.device)
                accelerator.copy_bytes(host.data_ptr(), cache.data_ptr(), 4096)
            del cache
    assert timeline.hazards == []


def test_a_replay_races_with_what_it_does_not_wait_for(accelerator, memory, side):
    graph = accelerator.graph()
    with graph.capture(), side:
        memory.load({1: 3})
    with debubble.record(accelerator) as timeline:
        graph.replay()
        with side:
            memory.load({2: 3})
    assert kinds(timeline) == RACE


def test_the_log_of_a_small_pool_stays_small(accelerator, memory):
    log = accelerator._device.races._log
    last = accelerator.current_stream().record_event()
    streams = [accelerator.stream() for _ in range(4)]
    for number in range(300):
        stream = streams[number % 4]
        stream.wait_event(last)
        with stream:
            memory.load({number % 5: number % 8, 7: (number + 3) % 8})
        last = stream.record_event()
    assert len(log) < 40
    accelerator.synchronize()
    assert len(log) == 0


def test_overlaps_in_a_table_are_those_of_every_pair():
    random = np.random.default_rng(0)
    for count in (0, 1, 50, 400):
        table, rows = RangeTable(), []
        for _ in range(8):
            starts = random.integers(0, 3000, count // 8 + 1)
            ends = starts + random.choice([1, 8, 15, 520, 1000], len(starts))
            numbers = np.arange(len(rows), len(rows) + len(starts))
            table.insert(starts, ends, numbers[:, None])
            rows += zip(starts.tolist(), ends.tolist(), strict=True)
            for part in table:
                gone = random.random(len(part)) < 0.1
                for number in part.values[gone, 0].tolist():
                    rows[number] = (0, 0)
                part.drop(gone)
        starts = random.integers(0, 3000, 40)
        ends = starts + random.choice([1, 16, 1000], 40)
        found = set()
        for part in table:
            at, ranges = part.overlapping(starts, ends)
            found |= set(zip(part.values[at, 0].tolist(), ranges.tolist(), strict=True))
        assert found == {
            (row, i)
            for row, (start, end) in enumerate(rows)
            for i in range(40)
            if start < ends[i] and starts[i] < end
        }


def test_the_log_finds_what_a_full_history_shows():
    """The log of accesses finds the same conflicts as a list of all accesses with what each of them
    knew, although it forgets those that can't conflict any more."""
    random = np.random.default_rng(3)
    for _ in range(40):
        log, history, seen = AccessLog(), [], [dict.fromkeys(range(3), 0) for _ in range(3)]
        for _ in range(60):
            stream, waited = random.integers(0, 3, 2).tolist()
            if random.random() < 0.5:
                seen[stream] = {s: max(n, seen[waited][s]) for s, n in seen[stream].items()}
            seen[stream][stream] += 1
            access = Access(stream, seen[stream][stream], None)
            start, length = int(random.integers(0, 12)), int(random.choice([1, 2, 6]))
            writes = bool(random.random() < 0.5)
            touch = Touch(np.array([start]), np.array([start + length]), writes)
            expected = any(
                seen[stream][past.stream] < past.order
                and (writes or wrote)
                and begin < start + length
                and start < end
                for past, begin, end, wrote in history
            )
            known = seen[stream].__getitem__
            conflicts = log.add(access, [touch], known, lambda _: 0, by_address=True)
            assert bool(conflicts) == expected
            history.append((access, start, start + length, writes))
        assert len(log) < len(history)


INDEX, EVERY = torch.tensor([2, 0]), torch.tensor([[[1, 0, 2], [2, 2, 0]]] * 2)
CHOOSES = {
    "index_select": lambda t: (1, INDEX),
    "embedding": lambda t: (INDEX,),
    "gather": lambda t: (1, EVERY),
    "take": lambda t: (INDEX * 5 - 1,),
    "index": lambda t: ([INDEX],),
    "index a later dimension": lambda t: ([None, INDEX],),
    "index two dimensions": lambda t: ([INDEX, None, INDEX[:, None]],),
    "index from behind": lambda t: ([INDEX - 3],),
    "index by int32": lambda t: ([INDEX.int()],),
    "index by a mask": lambda t: ([t[..., 0] % 3 == 0],),
    "index by a mask and more": lambda t: ([None, t[0, :, 0] % 3 == 0, torch.tensor([1])],),
    "masked_select": lambda t: (t % 3 == 0,),
    "index_copy_": lambda t: (1, INDEX, torch.full((t.shape[0], 2, t.shape[2]), -1.0)),
    "index_add_": lambda t: (-1, INDEX, torch.full((*t.shape[:2], 2), -1.0)),
    "index_fill_": lambda t: (0, INDEX, -1.0),
    "index_put_": lambda t: ([INDEX, INDEX], torch.tensor(-1.0)),
    "put_": lambda t: (INDEX * 5, torch.tensor([-1.0, -2.0])),
    "scatter_": lambda t: (2, EVERY, -1.0),
    "scatter_add_": lambda t: (0, EVERY, torch.full(EVERY.shape, -1.0)),
    "scatter_reduce_": lambda t: (1, EVERY, torch.full(EVERY.shape, -1.0), "sum"),
    "masked_fill_": lambda t: (t[:, :1, :1] % 2 == 0, -1.0),
    "masked_scatter_": lambda t: (t % 2 == 0, torch.full(t.shape, -1.0)),
}


@pytest.mark.parametrize("layout", ["dense", "transposed", "a part"])
@pytest.mark.parametrize("way", CHOOSES)
def test_an_index_touches_the_bytes_that_it_chooses_and_no_others(way, layout):
    """An indexing operator is said to touch exactly the bytes that it reads or writes. (Each number
    equals its place, so the values show what was touched.)"""
    memory = torch.arange(4 * 6 * 5, dtype=torch.float32)
    tensor = memory.view(4, 6, 5)
    tensor = {"dense": tensor, "transposed": tensor.mT, "a part": tensor[1:, ::2]}[layout]
    name, arguments = way.partition(" ")[0], CHOOSES[way](tensor)
    if name == "embedding":
        tensor = tensor[:, 1]
    chosen = Chosen.by(name, DeviceBlock(memory), (tensor, *arguments), name.endswith("_"))
    starts, ends = chosen.ranges()
    found = {n for at in zip(starts, ends, strict=True) for n in range(*at, 4)}
    assert (starts[1:] > ends[:-1]).all()
    before = memory.clone()
    out = getattr(torch.ops.aten, name)(tensor, *arguments)
    touched = before[memory != before] if name.endswith("_") else out.flatten()
    assert {(n - memory.data_ptr()) // 4 for n in found} == {int(n) for n in touched}


def test_an_index_that_chooses_nothing_touches_nothing():
    for shape, index in (((4, 3), []), ((4, 0), [1]), ((0, 3), [])):
        data, numbers = torch.zeros(shape), torch.tensor(index, dtype=torch.int64)
        chosen = Chosen.by("index_select", DeviceBlock(data), (data, 0, numbers), False)
        assert [len(part) for part in chosen.ranges()] == [0, 0]
        assert chosen.span() == (0, 0)


def test_many_reads_by_index_before_the_first_use_by_address(accelerator, memory, side):
    """A race with the last of many reads by index is found at the first access by address. The log
    forgets the other reads, and keeps no tensor alive."""
    cache = torch.zeros(8, BLOCK, dtype=torch.uint8, device=accelerator.device)
    index = torch.tensor([2], device=accelerator.device)
    freed = weakref.ref(cache.block)
    with debubble.record(accelerator) as timeline:
        for _ in range(200):
            cache.index_select(0, index)
        with side:
            memory.copy(memory.host, [1, 2], cache, [1, 2])
    (hazard,) = timeline.hazards
    assert "cache.index_select" in hazard.first.text
    del cache
    assert freed() is None
