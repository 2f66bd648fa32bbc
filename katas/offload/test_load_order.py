"""Tests of the kata `load_order`."""

import itertools

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Diagnosis,
    KataFailure,
    Step,
    closed_gate,
    expect,
    expect_equal,
)

BLOCKS = 8
# No two blocks are alike, or memory left by an earlier test could pass for a copy.
numbers = itertools.count(1)
WAITS = (
    "A host that waits queues nothing in the meantime, and the device runs dry. Streams can wait "
    "for each other by themselves: `stream.wait_stream(other)`, `stream.wait_event(event)`."
)
OVERTAKES = (
    "Work that compute got before the transfer may still be queued: a block to be zeroed, or its "
    "last reader. Let the stream of the transfer wait for the current stream, which is that of "
    "compute, before its copies are queued. Loads need that as well as stores."
)
NOT_THERE = (
    "After `make_stream_wait` for its blocks compute may read the loaded data. So an event has to "
    "be recorded after the copies, not before them, on the stream of the copies, and the current "
    "stream has to wait for it."
)
STORED_LATER = (
    "A store reads its blocks when its copies run, and that may be late. Compute that writes to "
    "them calls `make_stream_wait` first: keep the ends of stores as well as the ends of loads."
)
ONE_AFTER_ANOTHER = (
    "A block may be stored to where it is loaded from next, or loaded to where something else was "
    "just loaded. Streams run beside each other: on several of them each transfer has to wait for "
    "the end of the one before it, whatever its direction. One stream for all of them does that by "
    "itself."
)
BESIDE = (
    "The link has an engine of its own, and copies need no part of the device that computes. But a "
    "stream does one thing after the other. If the copies are on the stream of compute, or if that "
    "stream or the host waits for a transfer that no step needs yet, everything stands still until "
    "it is done."
)
ANOTHER_READER = (
    "Each stream that needs a block has to wait until the block's last transfer has ended: the "
    "wait of one stream does not count for the next. Record the event after the copies, and keep "
    "it until a later transfer of the block has its own event."
)
NO_TRANSFER = (
    "A request has blocks that were computed here besides the loaded blocks. A block that was "
    "never transferred is there already: there is no event, and nothing to wait for."
)
OWN_BLOCKS = (
    "A later transfer waits for all work that compute had when it was requested. A stream that "
    "only needs the blocks of an earlier transfer should not wait for that. Keep an event for each "
    "transfer, and wait for the event of these blocks; `wait_stream`, or one event that is "
    "recorded again each time, waits for all transfers so far."
)


class Cache:
    """Blocks [8, words] int64 on the device and in pinned memory, and the kata's transfers between
    them. There are so many words that a GPU needs some time to copy them all."""

    def __init__(self, accelerator):
        self.accelerator = accelerator
        words = 16 if accelerator.modelled else 128 * 1024
        self.values = list(itertools.islice(numbers, 2 * BLOCKS))
        """The value of each CPU block, then of each GPU block: all words of a block are equal."""
        blocks = torch.tensor(self.values).view(-1, 1).expand(-1, words).contiguous()
        self.cpu = blocks[:BLOCKS].clone()
        if accelerator.pin_memory:
            self.cpu = self.cpu.pin_memory()
        self.gpu = blocks[BLOCKS:].to(accelerator.device)
        accelerator.synchronize()

    def begin(self, kata):
        self.transfers = kata.BlockTransfers(self.gpu, self.cpu)

    def load(self, *pairs):
        """Loads blocks. `pairs` are (CPU block, GPU block)."""
        self.transfers.load([cpu for cpu, _ in pairs], [gpu for _, gpu in pairs])

    def store(self, *pairs):
        """Stores blocks. `pairs` are (GPU block, CPU block)."""
        self.transfers.store([gpu for gpu, _ in pairs], [cpu for _, cpu in pairs])

    def compute(self):
        """Queues a kernel of ten microseconds that uses none of the blocks."""
        self.accelerator.sleep(0.01)

    def keep_busy(self):
        """Queues a kernel that lasts until a real host has queued everything; the modelled host
        needs less."""
        self.accelerator.sleep(0.5 if self.accelerator.modelled else 20.0)

    def keep_first_stream_busy(self, monkeypatch):
        """Keeps the next new stream busy, so that code that relies on luck fails."""
        sleeps = iter([self.keep_busy])
        self.begin_streams_with(monkeypatch, lambda: next(sleeps, lambda: None)())

    def begin_streams_with(self, monkeypatch, queue):
        """Calls `queue` on each new stream, before any other work of the stream."""
        new_stream = self.accelerator.stream

        def stream():
            made = new_stream()
            with made:
                queue()
            return made

        monkeypatch.setattr(self.accelerator, "stream", stream)


def expect_block(block, value, what, why):
    words = block.cpu().unique().tolist()
    actual = words[0] if len(words) == 1 else words
    expect_equal(actual, value, value=f"{what}, a block whose words are all alike,", likely=why)


def test_blocks_arrive(kata, accelerator):
    cache = Cache(accelerator)
    cache.begin(kata)
    cache.load((1, 3), (2, 0))
    cache.transfers.make_stream_wait([3, 0])
    cache.store((3, 6), (5, 7))
    accelerator.synchronize()
    cpu, gpu = cache.values[:BLOCKS], cache.values[BLOCKS:]
    gpu[3], gpu[0] = cpu[1], cpu[2]
    cpu[6], cpu[7] = gpu[3], gpu[5]
    what = "after load([1, 2], [3, 0]) and store([3, 5], [6, 7])"
    value = f"the first words of all GPU blocks {what}"
    expect_equal(cache.gpu[:, 0].tolist(), gpu, value=value)
    expect_equal(cache.cpu[:, 0].tolist(), cpu, value=f"those of all CPU blocks {what}")


def test_the_host_does_not_wait(kata, accelerator):
    cache = Cache(accelerator)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.keep_busy()
        cache.load((1, 3), (2, 4))
        cache.transfers.make_stream_wait([3, 4])
        cache.compute()
        cache.store((3, 5))
    expect(timeline).counts(host_syncs=0, why=WAITS)


def test_a_load_waits_until_its_block_is_zeroed(kata, accelerator):
    cache = Cache(accelerator)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.keep_busy()
        cache.gpu[3].zero_()
        cache.load((1, 3))
    expect(timeline).no_hazards(why=OVERTAKES)
    accelerator.synchronize()
    what = "what was loaded to GPU block 3, which had to be zeroed before"
    expect_block(cache.gpu[3], cache.values[1], what, OVERTAKES)


def test_a_load_waits_for_the_last_reader_of_its_block(kata, accelerator):
    cache = Cache(accelerator)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.keep_busy()
        block = cache.gpu[3].clone()
        cache.load((1, 3))
    expect(timeline).no_hazards(why=OVERTAKES)
    what = "what compute reads in GPU block 3, to which something is loaded after that"
    expect_block(block, cache.values[BLOCKS + 3], what, OVERTAKES)


def test_a_store_waits_until_its_block_is_computed(kata, accelerator):
    cache = Cache(accelerator)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.keep_busy()
        cache.gpu[2].fill_(-1)
        cache.store((2, 5))
    expect(timeline).no_hazards(why=OVERTAKES)
    accelerator.synchronize()
    what = "what was stored to CPU block 5, from GPU block 2 that was computed before"
    expect_block(cache.cpu[5], -1, what, OVERTAKES)


def test_compute_reads_what_was_loaded(kata, accelerator, monkeypatch):
    cache = Cache(accelerator)
    cache.keep_first_stream_busy(monkeypatch)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.load(*((block, block) for block in range(BLOCKS)))
        cache.transfers.make_stream_wait([BLOCKS - 1])
        block = cache.gpu[BLOCKS - 1].clone()
    expect(timeline).no_hazards(why=NOT_THERE)
    what = f"what compute reads in GPU block {BLOCKS - 1}, loaded from CPU block {BLOCKS - 1}"
    expect_block(block, cache.values[BLOCKS - 1], what, NOT_THERE)


def test_a_block_without_a_transfer_is_there(kata, accelerator):
    cache = Cache(accelerator)
    cache.begin(kata)
    cache.load((1, 3))
    try:
        cache.transfers.make_stream_wait([5, 3])
    except Exception as error:
        raise KataFailure(
            Diagnosis(
                expected="make_stream_wait([5, 3]) to wait for the load of block 3 alone, since "
                "nothing was asked for block 5",
                did=f"raised {error!r}",
                why=NO_TRANSFER,
            )
        ) from error
    expect_block(cache.gpu[5].clone(), cache.values[BLOCKS + 5], "GPU block 5", NO_TRANSFER)


def test_compute_may_write_to_what_was_stored(kata, accelerator, monkeypatch):
    cache = Cache(accelerator)
    cache.keep_first_stream_busy(monkeypatch)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.store((2, 5))
        cache.transfers.make_stream_wait([2])
        cache.gpu[2].zero_()
    expect(timeline).no_hazards(why=STORED_LATER)
    accelerator.synchronize()
    what = "what was stored to CPU block 5, from GPU block 2 that was zeroed after that"
    expect_block(cache.cpu[5], cache.values[BLOCKS + 2], what, STORED_LATER)


@pytest.mark.parametrize(
    ("first", "second", "place", "source"),
    [
        (("store", (2, 5)), ("load", (5, 6)), ("GPU", 6), ("GPU", 2)),
        (("load", (1, 2)), ("store", (2, 5)), ("CPU", 5), ("CPU", 1)),
        (("load", (1, 3)), ("load", (4, 3)), ("GPU", 3), ("CPU", 4)),
    ],
    ids=["store then load", "load then store", "two loads"],
)
def test_transfers_run_in_their_order(kata, accelerator, monkeypatch, first, second, place, source):
    cache = Cache(accelerator)
    cache.keep_first_stream_busy(monkeypatch)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        for name, pair in (first, second):
            getattr(cache, name)(pair)
    expect(timeline).no_hazards(why=ONE_AFTER_ANOTHER)
    accelerator.synchronize()
    blocks = cache.gpu if place[0] == "GPU" else cache.cpu
    calls = " and then ".join(f"{name}([{a}], [{b}])" for name, (a, b) in (first, second))
    value = cache.values[source[1] + (BLOCKS if source[0] == "GPU" else 0)]
    what = f"{place[0]} block {place[1]} after {calls}"
    expect_block(blocks[place[1]], value, what, ONE_AFTER_ANOTHER)


@pytest.mark.parametrize("name", ["load", "store"])
def test_compute_goes_on_beside_a_transfer(kata, accelerator, monkeypatch, name):
    cache, gates = Cache(accelerator), []
    close = lambda: gates.append(closed_gate(accelerator, at_most_ms=1000.0, modelled_ms=0.5))
    cache.begin_streams_with(monkeypatch, close)
    with debubble.record(accelerator) as timeline:
        cache.compute()
        cache.begin(kata)
        getattr(cache, name)((1, 3), (2, 4))
        cache.compute()
        # On a real GPU the copy then outlasts a slow host that queues the kernel.
        accelerator.current_stream().synchronize()
        for gate in gates:
            gate.open()
    first, *kernels = (event for event in timeline.events if event.kind == "kernel")
    copies = [event for event in timeline.events if event.kind == "copy"]
    after = [kernel for kernel in kernels if kernel.lane == first.lane][-1]
    end = max(copy.end for copy in copies)
    expect(timeline).that(
        after.start < end,
        expected=f"a kernel that is queued behind a {name} of other blocks to start before the "
        "copies are done",
        did="lets it start only then",
        events=[*copies, after],
        quoted=copies,
        why=BESIDE,
    )


def test_two_streams_may_wait_for_one_block(kata, accelerator, monkeypatch):
    cache = Cache(accelerator)
    other = accelerator.stream()
    cache.keep_first_stream_busy(monkeypatch)
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.load((1, 3))
        cache.transfers.make_stream_wait([3])
        first = cache.gpu[3].clone()
        with other:
            cache.transfers.make_stream_wait([3])
            second = cache.gpu[3].clone()
    expect(timeline).no_hazards(why=ANOTHER_READER)
    accelerator.synchronize()
    for block, which in ((first, "first"), (second, "second")):
        what = f"what the {which} of two streams that wait for GPU block 3 reads in it"
        expect_block(block, cache.values[1], what, ANOTHER_READER)


def test_a_stream_waits_for_its_own_blocks_alone(kata, accelerator):
    cache = Cache(accelerator)
    other = accelerator.stream()
    with debubble.record(accelerator) as timeline:
        cache.begin(kata)
        cache.load((1, 3))
        cache.keep_busy()
        cache.load((2, 4))
        with other:
            cache.transfers.make_stream_wait([3])
            cache.compute()
    kernels = [event for event in timeline.events if event.kind == "kernel"]
    busy = max(kernels, key=lambda kernel: kernel.duration)
    reader = min(kernels, key=lambda kernel: kernel.duration)
    expect(timeline).that(
        reader.start < busy.end,
        expected="a stream that needs block 3 to go on when block 3 is there",
        did="lets it wait for the load of block 4 too, which has to wait for a long kernel",
        events=[busy, reader],
        quoted=(),  # the lines are the test's own
        why=OWN_BLOCKS,
    )


def common_steps(accelerator):
    steps = [
        ("loads of 1 and 2", [(1, 3), (2, 0)], [3, 0]),
        ("a load of 1 block", [(5, 7)], [7]),
        ("no load", [], []),
        ("2 loads, which are waited for in the other order,", [(0, 1), (4, 2)], [2, 1]),
        ("all blocks", [(block, 7 - block) for block in range(BLOCKS)], [*range(BLOCKS)]),
        ("a load that has been waited for", [(6, 6)], [6]),
        ("1 CPU block to 3 GPU blocks", [(2, 0), (2, 5), (2, 7)], [7, 0, 5]),
    ]
    right = lambda cpu_blocks: torch.tensor(cpu_blocks, dtype=torch.int64).view(-1, 1) * 10 + 1
    return [
        Step(name, (pairs, waited), right(loaded(pairs, waited))) for name, pairs, waited in steps
    ]


def loaded(pairs, waited):
    """Returns the CPU block that each of the GPU blocks was loaded from."""
    return [{gpu: cpu for cpu, gpu in pairs}[block] for block in waited]


def loading(kata, accelerator):
    """Returns a function that loads each block by itself, and returns blocks that it waits for. The
    lists that it passes are cleared after each call."""
    cpu = (torch.arange(BLOCKS) * 10 + 1).view(BLOCKS, 1)
    cpu = cpu.pin_memory() if accelerator.pin_memory else cpu
    gpu = torch.zeros(BLOCKS, 1, dtype=torch.int64, device=accelerator.device)
    transfers = kata.BlockTransfers(gpu, cpu)

    def load(pairs, waited):
        gpu.zero_()
        one, other = pairs[::2], pairs[1::2]
        for some in (one, other):
            lists = [source for source, _ in some], [target for _, target in some]
            transfers.load(*lists)
            for numbers in lists:
                numbers[:] = [0] * len(numbers)
        asked = list(waited)
        transfers.make_stream_wait(asked)
        found = gpu[torch.tensor(waited, dtype=torch.int64).to(accelerator.device)]
        transfers.make_stream_wait(range(BLOCKS))
        return found

    return load


COMMON = Common(
    make=loading,
    steps=common_steps,
    result="what the GPU blocks that are waited for hold after {}",
    likely=NOT_THERE,
    stale=NOT_THERE,
)
