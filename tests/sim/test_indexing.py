"""Any index that works on the CPU reads and writes the same elements on sim."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPE = (3, 4, 5)
SCALAR_MASKS = (True, False, ("tensor", True), ("tensor", False), ("on the CPU", True))
"""Indices that are masks without dimensions: True takes everything, False nothing."""

pytestmark = pytest.mark.sim


def bounds(size):
    return st.one_of(st.none(), st.integers(-size - 1, size + 1))


def slices(size):
    return st.builds(slice, bounds(size), bounds(size), st.one_of(st.none(), st.integers(1, 3)))


def positions(size, count):
    return st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)


def parts(size):
    """Returns a strategy for the index of a dimension of this size. ("tensor", ...) stands for a
    tensor on the device, ("on the CPU", ...) for one on the CPU."""
    in_a_tensor = st.one_of(positions(size, 2), positions(size, 1), st.integers(-size, size - 1))
    mask = st.lists(st.booleans(), min_size=size, max_size=size)
    return st.one_of(
        st.integers(-size, size - 1),
        slices(size),
        positions(size, 2),
        st.tuples(st.just("tensor"), in_a_tensor),
        st.tuples(st.just("on the CPU"), in_a_tensor),
        st.tuples(st.just("tensor"), mask),
        st.tuples(st.just("column"), positions(size, 2)),
        mask,
    )


@st.composite
def indices(draw):
    dimensions = draw(st.integers(0, len(SHAPE)))
    index = [draw(parts(size)) for size in SHAPE[:dimensions]]
    if draw(st.booleans()):
        index.insert(draw(st.integers(0, len(index))), draw(st.sampled_from([None, *SCALAR_MASKS])))
    if draw(st.booleans()) and dimensions < len(SHAPE):
        index.append(...)
    if len(index) == 1 and draw(st.booleans()):
        return index[0]
    return tuple(index)


def on(device, part):
    if isinstance(part, tuple) and part and part[0] in ("tensor", "column"):
        index = torch.tensor(part[1], device=device)
        return index[:, None] if part[0] == "column" else index
    if isinstance(part, tuple) and part and part[0] == "on the CPU":
        return torch.tensor(part[1])
    return tuple(on(device, p) for p in part) if isinstance(part, tuple) else part


def outcome(call):
    """Returns the call's result, or the name of the class of the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return type(error).__name__


def example(device):
    return torch.arange(60.0).view(SHAPE).to(device)


def read(device, index):
    got = example(device)[on(device, index)]
    return got.shape, got.tolist()


def assign(device, index, value):
    x = example(device)
    x.permute(0, 2, 1).permute(0, 2, 1)[on(device, index)] = value
    return x.tolist()


def names_each_element_once(index):
    """Returns True if the index names no element twice. Otherwise it is undefined which of several
    assigned values wins."""
    elements = torch.arange(60).view(SHAPE)[on("cpu", index)]
    return elements.unique().numel() == elements.numel()


@settings(max_examples=250, deadline=None, derandomize=True)
@given(indices())
def test_reading(accelerator, index):
    assert outcome(lambda: read(accelerator.device, index)) == outcome(lambda: read("cpu", index))


@settings(max_examples=250, deadline=None, derandomize=True)
@given(indices())
def test_assigning_a_number(accelerator, index):
    expected = outcome(lambda: assign("cpu", index, -1.0))
    assert outcome(lambda: assign(accelerator.device, index, -1.0)) == expected


@settings(max_examples=250, deadline=None, derandomize=True)
@given(indices(), st.sampled_from(["same", "row", "one", "wrong"]))
def test_assigning_a_tensor(accelerator, index, kind):
    shape = outcome(lambda: example("cpu")[on("cpu", index)].shape)
    if isinstance(shape, str) or not names_each_element_once(index):
        return
    shape = {"row": shape[-1:], "one": (1,), "wrong": (7, 3)}.get(kind, shape)
    value = -1.0 - torch.arange(torch.Size(shape).numel()).view(shape).float()
    expected = outcome(lambda: assign("cpu", index, value))
    value = value.to(accelerator.device)
    assert outcome(lambda: assign(accelerator.device, index, value)) == expected


@settings(max_examples=100, deadline=None, derandomize=True)
@given(indices())
def test_adding_in_place(accelerator, index):
    def add(device):
        x = example(device)
        x[on(device, index)] += 1
        return x.tolist()

    assert outcome(lambda: add(accelerator.device)) == outcome(lambda: add("cpu"))


@pytest.mark.parametrize("mask", SCALAR_MASKS, ids=str)
def test_a_mask_without_dimensions_chooses_a_number_without_dimensions(accelerator, mask):
    def assign(device):
        x = torch.tensor(3.0, device=device)
        x[on(device, mask)] = 1 - x[on(device, mask)] / 2
        return x.item()

    assert assign(accelerator.device) == assign("cpu")
