"""Tests of the kata `descriptor_pool`. A transfer here is an upload of its own source addresses."""

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

N = 16
OVERWRITTEN = (
    "A queued transfer reads its descriptors when its turn comes. A buffer that was returned may "
    "still have to be read: if it is overwritten earlier, the old transfer goes to the addresses "
    "of the next. `event.query()` says without a wait whether the transfer is done."
)
ONE_OWNER = (
    "Between `take` and `give_back` a buffer belongs to the caller, who may not have queued "
    "anything yet. Remove it from the free buffers when you hand it out."
)
WAITS = (
    "While the host waits, it queues nothing, and after the last transfer the device will have "
    "nothing to do. Descriptors need little memory: if no buffer is free, make another."
)
AGAIN = (
    "Pinning memory is a call to the operating system, and pinned memory is lost to all other "
    "programs. A buffer whose transfer is done is as good as a new one: hand it out again."
)
OLDEST_FIRST = (
    "In an engine the next transfer is queued before the last one is done, so there is always one "
    "in flight. A pool that only queries the newest event never finds a free buffer. Events pass "
    "in the order in which they were given: query the oldest, and go on as long as they have "
    "passed."
)
ALL_OF_THEM = (
    "Several transfers may be done since the last look. Go on with the oldest event as long as "
    "`event.query()` says that it has passed: a pool that frees one buffer in each call grows "
    "although it has enough."
)
TOO_SMALL = (
    "A transfer writes as many descriptors as it has pieces. Look for a free buffer with at least "
    "as many columns, `buffers.shape[1]`, and make one if there is none."
)
TOO_MANY = "A pool that has `most_buffers` makes no more: it waits until one of them is free."
TOO_LONG = (
    "One buffer is enough to go on, and the oldest transfer is the first to free one. Wait for its "
    "event, `event.synchronize()`: a wait for a stream or for the device is also a wait for all "
    "work that is queued after it, and then the device has nothing left to do: a bubble."
)
NOTHING_TO_WAIT_FOR = (
    "The callers hold all buffers, and none of their transfers has an event yet, so there is "
    "nothing to wait for. This is a mistake of the caller: raise a RuntimeError."
)
TOO_SMALL_BUT_FREE = (
    "A pool that has `most_buffers` waits only if no buffer is free. Here one is free, though too "
    "small: drop it and make a larger one in its place, without a wait."
)
REPLACED = (
    "A free buffer that is too small takes the place of a larger buffer. Drop it, and make a "
    "larger one: the number of buffers stays the same."
)


def claim(holds, expected, did, why):
    if not holds:
        raise KataFailure(Diagnosis(expected, did, why=why))


class Transfers:
    """Uploads from buffers of the kata's pool. The buffers are kept, so that no two have the same
    address."""

    def __init__(self, kata, accelerator, most_buffers=None):
        self.pool = kata.DescriptorPool(most_buffers)
        self.accelerator = accelerator
        self.taken, self.targets = [], []
        # PyTorch caches pinned memory, so the driver need not pin during the test.
        pin_memory = accelerator.pin_memory
        _ = [torch.empty(3 * 64, dtype=torch.int64, pin_memory=pin_memory) for _ in range(8)]

    def take(self, num_descriptors=N):
        buffers = self.pool.take(num_descriptors)
        shape = tuple(buffers.shape)
        claim(
            len(shape) == 2 and shape[0] == 3 and shape[1] >= num_descriptors,
            expected=f"take({num_descriptors}) to return a tensor [3, at least {num_descriptors}]",
            did=f"returned one of {list(shape)}",
            why=TOO_SMALL,
        )
        self.taken.append(buffers)
        return buffers

    def queue(self, buffers, num_descriptors=N):
        """Writes descriptors that no other transfer has, queues a copy of them and returns the
        buffer."""
        number = len(self.targets) + 1
        # The whole buffer is copied, to a target of the same layout: a row alone would not
        # be one copy.
        target = torch.empty_like(buffers, device=self.accelerator.device)
        self.targets.append(target[0, :num_descriptors])
        buffers[0, :num_descriptors] = number
        target.copy_(buffers, non_blocking=True)
        event = self.accelerator.event()
        event.record()
        self.pool.give_back(buffers, event)

    def run(self, num_descriptors=N):
        self.queue(self.take(num_descriptors), num_descriptors)

    def keep_busy(self):
        """Queues a kernel that lasts until a real host has queued everything; the modelled host
        needs less."""
        self.accelerator.sleep(0.5 if self.accelerator.modelled else 50.0)

    @property
    def numbers(self):
        """Returns the number of each transfer's buffer, counted from 0 in the order of first
        use."""
        seen = {}
        return [seen.setdefault(buffers.data_ptr(), len(seen)) for buffers in self.taken]

    @property
    def arrived(self):
        return [target[-1].item() for target in self.targets]


@pytest.mark.parametrize("num_descriptors", [1, 16, 65, 100])
def test_a_buffer_is_three_rows_of_pinned_memory(kata, accelerator, num_descriptors):
    transfers = Transfers(kata, accelerator)
    buffers = transfers.take(num_descriptors)
    call = f"take({num_descriptors})"
    expect_equal(buffers.dtype, torch.int64, value=f"the dtype of what {call} returns")
    if accelerator.pin_memory:
        why = "A GPU can only read host memory that is pinned: `_new_descriptor_buffers` makes it."
        value = f"`is_pinned()` of what {call} returns"
        expect_equal(buffers.is_pinned(), True, value=value, likely=why)


def test_a_buffer_is_handed_out_once(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    for _ in range(3):
        transfers.take()
    value = "the buffers of 3 calls of take, with none returned, numbered by first use,"
    expect_equal(transfers.numbers, [0, 1, 2], value=value, likely=ONE_OWNER)


def test_each_transfer_reads_its_own_descriptors(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        transfers.keep_busy()
        for _ in range(5):
            transfers.run()
    expect(timeline).no_hazards(why=OVERWRITTEN)
    value = "what 5 transfers read, where transfer i has written i to its descriptors,"
    expect_equal(transfers.arrived, [1, 2, 3, 4, 5], value=value, likely=OVERWRITTEN)


def test_a_buffer_in_flight_is_not_handed_out(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    accelerator.synchronize()
    with closed_gate(accelerator, at_most_ms=1000.0, modelled_ms=0.5) as gate:
        transfers.run()
        transfers.take()
        still_busy = gate.closed
    claim(
        transfers.numbers == [0, 1] or not still_busy,
        expected="another buffer, since the first one has not been read yet",
        did="handed out the buffer that was returned with an event that has not passed",
        why=OVERWRITTEN,
    )


def test_nobody_waits(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        transfers.keep_busy()
        for _ in range(3):
            transfers.run()
    expect(timeline).counts(host_syncs=0, why=WAITS)


def test_buffers_are_used_again(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    for _ in range(4):
        transfers.run()
        accelerator.synchronize()
    value = "the buffers of 4 transfers, each done before the next one, numbered by first use,"
    expect_equal(transfers.numbers, [0, 0, 0, 0], value=value, likely=AGAIN)
    columns = transfers.taken[0].shape[1]
    transfers.take(columns)
    value = f"the buffer of a 5th transfer, of {columns} descriptors, as many as it has room for,"
    expect_equal(transfers.numbers[-1], 0, value=value, likely=AGAIN)


def test_a_buffer_that_is_used_again_is_handed_out_once(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    transfers.run()
    accelerator.synchronize()
    again, another = transfers.take(), transfers.take()
    addresses = again.data_ptr(), another.data_ptr()
    claim(
        addresses[0] != addresses[1],
        expected="2 calls of take to return two buffers, when one is free",
        did="handed out the same one twice",
        why=ONE_OWNER,
    )


def test_a_buffer_is_free_when_its_own_transfer_is_done(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    first, second = transfers.take(), transfers.take()
    transfers.queue(first)
    accelerator.synchronize()
    with closed_gate(accelerator, modelled_ms=0.5):
        transfers.queue(second)
        transfers.take()
    value = "the buffers of 3 calls of take, where the first transfer is done, numbered,"
    expect_equal(transfers.numbers, [0, 1, 0], value=value, likely=OLDEST_FIRST)


def test_all_buffers_whose_transfers_are_done_are_free(kata, accelerator):
    """The transfer that was queued last is the only one whose buffer is large enough."""
    transfers = Transfers(kata, accelerator)
    with closed_gate(accelerator, modelled_ms=0.5):
        for num_descriptors in (4, 5, 6, 3000):
            transfers.run(num_descriptors)
    accelerator.synchronize()
    transfers.take(3000)
    claim(
        transfers.numbers[-1] == transfers.numbers[3],
        expected="take(3000) to return the buffer of 3000 descriptors, whose transfer is done, as "
        "are three others that were queued before it",
        did="returned another buffer",
        why=ALL_OF_THEM,
    )


def test_a_larger_transfer_has_a_larger_buffer(kata, accelerator):
    transfers = Transfers(kata, accelerator)
    for num_descriptors in (4, 300, 5, 2000, 300):
        transfers.run(num_descriptors)
        accelerator.synchronize()
    sizes = [len(target) for target in transfers.targets]
    value = f"what transfers of {sizes} descriptors read"
    expect_equal(transfers.arrived, [1, 2, 3, 4, 5], value=value, likely=TOO_SMALL)
    count = len({*transfers.numbers})
    claim(
        count <= 3,
        expected=f"at most 3 buffers for transfers of {sizes} descriptors, each done before the "
        "next one",
        did=f"made {count}",
        why=AGAIN,
    )


def test_a_full_pool_waits_for_the_oldest_transfer_alone(kata, accelerator):
    transfers = Transfers(kata, accelerator, most_buffers=2)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        first = closed_gate(accelerator, modelled_ms=5.0)
        transfers.run()
        with closed_gate(accelerator, modelled_ms=50.0) as gate:
            transfers.run()
            first.open()
            transfers.run()
            still_busy = gate.closed
    expect(timeline).no_hazards(why=OVERWRITTEN)
    waits = [event for event in timeline.events if event.kind == "sync"]
    expect(timeline).that(
        still_busy,
        expected="the third transfer to wait for the first one alone, and to leave the device busy "
        "with the kernel after it",
        did="waited until the device had done everything",
        events=sorted(waits, key=lambda wait: -wait.duration)[:1],
        why=TOO_LONG,
    )
    expect_equal(
        transfers.numbers,
        [0, 1, 0],
        value="the buffers of 3 transfers in a pool of 2, numbered by first use,",
        likely=TOO_MANY if len({*transfers.numbers}) > 2 else OVERWRITTEN,
    )
    value = "what 3 transfers read, where transfer i has written i to its descriptors,"
    expect_equal(transfers.arrived, [1, 2, 3], value=value, likely=OVERWRITTEN)


def test_a_full_pool_replaces_a_free_buffer_without_a_wait(kata, accelerator):
    """A pool of 2 has a free buffer, which is too small, and one whose transfer is in flight."""
    transfers = Transfers(kata, accelerator, most_buffers=2)
    small, other = transfers.take(4), transfers.take(4)
    transfers.queue(small, 4)
    accelerator.synchronize()
    with (
        debubble.record(accelerator) as timeline,
        closed_gate(accelerator, modelled_ms=5.0) as gate,
    ):
        transfers.queue(other, 4)
        transfers.take(3000)
        still_busy = gate.closed
    expect(timeline).that(
        still_busy,
        expected="take(3000) to return without a wait, in a pool of 2 with a free buffer that is "
        "too small and another buffer in flight",
        did="waited for the transfer in flight",
        events=[event for event in timeline.events if event.kind == "sync"],
        why=TOO_SMALL_BUT_FREE,
    )


def test_a_full_pool_makes_room_for_a_larger_transfer(kata, accelerator):
    transfers = Transfers(kata, accelerator, most_buffers=1)
    for num_descriptors in (4, 3000):
        try:
            transfers.run(num_descriptors)
        except RuntimeError as error:
            claim(
                False,
                expected=f"take({num_descriptors}) to return a buffer, in a pool of 1 whose buffer "
                "is free and too small",
                did=f"raised {error!r}",
                why=REPLACED,
            )
        accelerator.synchronize()
    value = "what transfers of 4 and 3000 descriptors read"
    expect_equal(transfers.arrived, [1, 2], value=value, likely=TOO_SMALL)


def test_a_buffer_that_was_too_small_is_gone(kata, accelerator):
    transfers = Transfers(kata, accelerator, most_buffers=1)
    for num_descriptors in (4, 3000):
        transfers.run(num_descriptors)
        accelerator.synchronize()
    expect_equal(
        transfers.take(4).data_ptr(),
        transfers.taken[1].data_ptr(),
        value="the address of the buffer of a third transfer, in a pool of 1 that has grown,",
        likely=REPLACED,
    )
    expect_none_left(transfers, most_buffers=1)


def test_a_full_pool_with_nothing_to_wait_for_says_so(kata, accelerator):
    transfers = Transfers(kata, accelerator, most_buffers=2)
    transfers.take(), transfers.take()
    expect_none_left(transfers, most_buffers=2)


def expect_none_left(transfers, most_buffers):
    try:
        transfers.take()
    except RuntimeError:
        return
    except IndexError as error:
        did = f"raised {error!r}"
    else:
        did = "returned one"
    claim(
        False,
        expected=f"a RuntimeError from take in a pool of {most_buffers}, with all buffers taken "
        "and none returned",
        did=did,
        why=f"{TOO_MANY} {NOTHING_TO_WAIT_FOR}",
    )


def common_steps(accelerator):
    counts = (16, 100, 1, 0, 3, 1000, 16)
    return [
        Step(
            f"transfer {number}, of {count} descriptors,",
            (count, number),
            torch.full((count,), number),
        )
        for number, count in enumerate(counts, start=1)
    ]


def transferring(kata, accelerator, most_buffers=3):
    """Returns a function that takes a buffer, copies its first row, and returns what arrived."""
    pool = kata.DescriptorPool(most_buffers)

    def transfer(count, number):
        buffers = pool.take(count)
        buffers[0] = number
        arrived = buffers.to(accelerator.device, non_blocking=True)
        event = accelerator.event()
        event.record()
        pool.give_back(buffers, event)
        return arrived[0, :count]

    return transfer


COMMON = Common(
    make=transferring,
    steps=common_steps,
    result="what {} reads from the buffer that `take` returned",
    stale=OVERWRITTEN,
)


def test_buffers_that_are_given_up_count_no_longer(kata, accelerator):
    """Larger and larger transfers in a pool that may have two buffers, both free and too small."""
    transfers = Transfers(kata, accelerator, most_buffers=2)
    for count in (1, 200, 400, 800, 1600):
        try:
            both = [transfers.take(count), transfers.take(count)]
        except RuntimeError as error:
            claim(
                False,
                expected=f"2 calls of take({count}), of a pool that may have 2 buffers, to return",
                did=f"raised RuntimeError: {error}",
                why=STILL_COUNTED,
            )
        for buffers in both:
            transfers.queue(buffers, count)
        accelerator.synchronize()
    expect_equal(transfers.arrived, [*range(1, 11)], value="what 10 transfers read, in order,")


STILL_COUNTED = (
    "Both buffers are free and too small. Each that the pool gives up for a larger buffer makes "
    "room for one: count the buffers that are there."
)
