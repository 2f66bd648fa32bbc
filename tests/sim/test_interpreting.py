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
