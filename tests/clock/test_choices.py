"""Times of calls that sort, draw, choose or write at indices follow what they choose."""

import pytest
import torch

import debubble
from debubble.clock.configuration import configuration
from debubble.clock.cost import CostModel


def described(name, *args, results=()):
    return configuration(name, args, list(results))


@pytest.fixture(scope="module")
def h200():
    cost = CostModel.load("nvidia-h200")

    def microseconds(name, *args, results=()):
        tensors = [t for t in (*args, *results) if isinstance(t, torch.Tensor)]
        moved = sum(t.nbytes for t in tensors)
        return cost.measured_us(name, args, list(results), moved)

    return microseconds


def places(number):
    return torch.zeros(number, dtype=torch.int64)


PLACES, VALUES = [places(9)], torch.zeros(9)


def test_a_write_is_told_apart_by_the_number_of_indices_and_not_of_the_targets_elements():
    target = torch.zeros(4096, 8)
    few, many = (
        described("index_add_", target, 0, places(number), torch.zeros(number, 8))
        for number in (4, 2048)
    )
    assert few.kinds == many.kinds
    assert few.sizes == (4, 32, 1, 32768)
    assert many.sizes == (2048, 16384, 1, 32768)


def test_indices_that_meet_at_a_place_are_counted():
    target = torch.zeros(16)
    found = described("index_put_", target, [places(4096)], torch.zeros(4096), True)
    assert found.sizes == (4096, 4096, 256, 16)


def test_several_indices_are_one_for_each_pair():
    target, value = torch.zeros(8, 8, 4), torch.zeros(5, 7, 4)
    rows, columns = torch.zeros(5, 1, dtype=torch.int64), places(7)
    found = described("index_put_", target, [rows, columns], value)
    assert found.sizes[:2] == (35, 140)
    assert found.kinds[0].startswith("index_put_ 2 ")


@pytest.mark.parametrize(
    "one, other",
    [
        (
            ("index_put_", [places(9)], torch.zeros(9)),
            ("index_put_", [places(9)], torch.zeros(9), True),
        ),
        (("topk", 5), ("topk", 5, -1, True, False)),
        (("multinomial", 1), ("multinomial", 4)),
        (("multinomial", 4), ("multinomial", 4, True)),
        (("_unique2", True, False), ("_unique2", True, True)),
        (("index.Tensor", PLACES), ("index.Tensor", [torch.zeros(64, dtype=torch.bool)])),
        (("index_add", 0, *PLACES, VALUES), ("index_add_", 0, *PLACES, VALUES)),
    ],
)
def test_calls_that_launch_other_kernels_are_of_other_kinds(one, other):
    x = torch.zeros(64)
    a, b = (described(name, x, *args, results=[x]) for name, *args in (one, other))
    assert a.kinds[0] != b.kinds[0]


@pytest.mark.parametrize(
    "name, args, results, microseconds",
    [
        ("sort", (torch.zeros(262144, dtype=torch.int64),), (262144, 262144), 83.5),
        ("topk", (torch.zeros(8192), 5), (5, 5), 42.5),
        ("topk", (torch.zeros(262144), 8), (8, 8), 63.1),
        ("multinomial", (torch.zeros(32, 32768), 8), (256,), 95.0),
        ("multinomial", (torch.zeros(2048), 1), (1,), 20.9),
        ("_unique2", (torch.zeros(1 << 20, dtype=torch.int64), True, True), (1024,), 182.4),
        ("cumsum", (torch.zeros(1 << 20, dtype=torch.int64), 0), (1 << 20,), 8.4),
    ],
)
def test_a_measured_call_of_the_h200_has_its_time(h200, name, args, results, microseconds):
    """The table has the times of an H100, from which sim scales back: 15 percent are left."""
    outs = [torch.zeros(size, dtype=args[0].dtype) for size in results]
    assert h200(name, *args, results=outs) == pytest.approx(microseconds, rel=0.15)


@pytest.mark.sim
def test_adding_at_indices_takes_longer_than_writing_there(accelerator):
    x = torch.zeros(1024, 64, device=accelerator.device)
    index = torch.arange(256).to(accelerator.device)
    value = torch.ones(256, 64, device=accelerator.device)
    times = []
    for accumulate in (False, True):
        with debubble.record(accelerator) as timeline:
            x.index_put_((index,), value, accumulate=accumulate)
        times.append(sum(e.duration for e in timeline.events if e.kind == "kernel"))
    assert times[1] > 5 * times[0]
