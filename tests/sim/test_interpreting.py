"""What Triton's interpreter does once for a kernel, and that it is left as it was."""

import pytest
import torch

from debubble.accelerator import launch

pytestmark = pytest.mark.sim
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def double(x):
    return x + x


@triton.jit
def refuse(x):
    tl.static_assert(False, "not today")
    return x


@triton.jit
def doubles_kernel(x, times: tl.constexpr):
    value = tl.load(x + tl.program_id(0))
    for _ in range(times):
        value = double(value)
    tl.store(x + tl.program_id(0), value)


@triton.jit
def refusing_kernel(x):
    tl.store(x, refuse(tl.load(x)))


@triton.jit
def asserting_kernel(x):
    value = tl.load(x + tl.program_id(0))
    tl.device_assert(value > 0, "numbers must be above 0")
    tl.store(x + tl.program_id(0), -value)


@pytest.fixture
def prepared(monkeypatch):
    """The functions that the interpreter itself prepared and called, one for each time."""
    interpreted, calls = type(double), []
    as_it_was = interpreted.__call__

    def call(function, *args, **kwargs):
        calls.append(function.fn.__name__)
        return as_it_was(function, *args, **kwargs)

    monkeypatch.setattr(interpreted, "__call__", call)
    return calls


def test_a_function_is_prepared_once_in_each_launch(accelerator, prepared):
    x = torch.ones(3, device=accelerator.device)
    for _ in range(2):
        launch(doubles_kernel, (3,), x, times=4)
    assert x.tolist() == [256.0] * 3
    assert prepared == ["double"] * 2


def test_after_a_launch_the_interpreter_is_as_it_was(accelerator, prepared):
    x = torch.ones(1, device=accelerator.device)
    as_it_was = type(double).__call__
    launch(doubles_kernel, (1,), x, times=1)
    assert type(double).__call__ is as_it_was
    with pytest.raises(Exception, match="not today"):
        launch(refusing_kernel, (1,), x)
    assert type(double).__call__ is as_it_was


def test_what_a_kernel_asserts_is_asked_and_nothing_changes_where_it_does_not_hold(accelerator):
    x = torch.tensor([1, 2, 0, 3]).to(accelerator.device)
    launch(asserting_kernel, (2,), x)
    assert x.tolist() == [-1, -2, 0, 3]
    with pytest.raises(RuntimeError, match="asserting_kernel: numbers must be above 0"):
        launch(asserting_kernel, (2,), x[1:])
    assert x.tolist() == [-1, -2, 0, 3]


def test_a_sum_beyond_32_bits_is_no_assertion(accelerator):
    x = torch.tensor([2**31 - 1], dtype=torch.int32).to(accelerator.device)
    launch(doubles_kernel, (1,), x, times=1)
    assert x.tolist() == [-2]


def test_the_language_is_searched_once_and_left_as_it_was(accelerator, monkeypatch):
    x = torch.ones(1, device=accelerator.device)
    language = dict(vars(tl)), dict(vars(tl.tensor))
    launch(doubles_kernel, (1,), x, times=1)
    monkeypatch.setattr("inspect.getmembers", lambda *searched: pytest.fail("it searches again"))
    launch(doubles_kernel, (1,), x, times=1)
    assert x.tolist() == [4.0]
    assert (dict(vars(tl)), dict(vars(tl.tensor))) == language


@pytest.mark.parametrize(
    ("triton_type", "numpy_type"),
    [
        (tl.bfloat16, "uint16"),
        (tl.block_type(tl.bfloat16, [4]), "uint16"),
        (tl.block_type(tl.int1, [4]), "bool"),
        (tl.float64, "float64"),
        (tl.pointer_type(tl.float32), "uint64"),
        (tl.block_type(tl.pointer_type(tl.int8), [2, 2]), "uint64"),
    ],
    ids=str,
)
def test_a_type_found_once_is_the_same_again(accelerator, triton_type, numpy_type):
    from triton.runtime import interpreter

    launch(doubles_kernel, (1,), torch.ones(1, device=accelerator.device), times=1)
    for _ in range(2):
        assert interpreter._get_np_dtype(triton_type) == numpy_type


def test_what_overflows_is_infinite_and_nobody_is_warned(accelerator, recwarn):
    x = torch.full((1,), 3e38, device=accelerator.device)
    launch(doubles_kernel, (1,), x, times=1)
    assert x.tolist() == [float("inf")]
    assert [warning for warning in recwarn if warning.category is RuntimeWarning] == []
