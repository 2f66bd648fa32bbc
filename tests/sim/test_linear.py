"""`linear` as one operator equals PyTorch's composite: values, work, time and errors."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import debubble

pytestmark = pytest.mark.sim
ROWS = [(5,), (3, 5), (20, 256), (2, 3, 5), (2, 2, 3, 5), (0, 5), (2, 0, 5)]


class Watching(TorchDispatchMode):
    """A dispatch mode under which PyTorch decomposes `linear` into other operators; it checks
    that."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket.__name__ != "linear"
        return func(*args, **(kwargs or {}))


def doing(accelerator, call):
    """Returns (result of the call, (modelled time of the host, modelled time until the stream is
    done, number of kernels))."""
    device, stream = accelerator._device, accelerator._device.streams.current()
    accelerator.synchronize()
    host, kernels = device.now, stream.submitted
    result = call()
    works_until = max(stream.free_at, host)
    return result, (device.now - host, works_until - host, stream.submitted - kernels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_it_is_the_same_in_one_go(accelerator, shape, apart, with_bias, dtype):
    x = torch.rand(shape, dtype=dtype, device="sim")
    x = torch.stack((x, x), -1)[..., 0] if apart else x
    weight, bias = (torch.rand(*s, dtype=dtype, device="sim") for s in ((4, shape[-1]), (4,)))
    given = (x, weight, bias) if with_bias else (x, weight)
    with torch.no_grad():
        got, work = doing(accelerator, lambda: F.linear(*given))
        with Watching():
            expected, work_in_parts = doing(accelerator, lambda: F.linear(*given))
    assert work == pytest.approx(work_in_parts)
    with torch.inference_mode():
        again = F.linear(*given)
    for result in (got, again):
        assert (result.shape, result.stride()) == (expected.shape, expected.stride())
        torch.testing.assert_close(result.cpu(), expected.cpu())


def test_derivatives_of_every_kind_go_through_it(accelerator):
    x, weight = torch.rand(2, 3, 5), torch.rand(4, 5)

    def results(x, weight):
        leaf = weight.clone().requires_grad_()
        F.linear(x, leaf).sum().backward()
        with torch.no_grad():
            forward = torch.func.jvp(lambda w: F.linear(x, w), (weight,), (weight,))[1]
            each = torch.func.vmap(lambda row: F.linear(row, weight))(x)
            gradient = torch.func.grad(lambda w: F.linear(x, w).sum())(weight)
        return leaf.grad, forward, each, gradient

    for got, expected in zip(
        results(x.to("sim"), weight.to("sim")), results(x, weight), strict=True
    ):
        torch.testing.assert_close(got.cpu(), expected)


def test_a_recording_shows_the_same(accelerator):
    x, weight = torch.ones(2, 3, 5, device="sim"), torch.ones(4, 5, device="sim")

    def recorded():
        with torch.no_grad(), debubble.record(accelerator) as timeline:
            F.linear(x, weight)
        return [(e.kind, e.name, e.bytes, e.duration) for e in timeline.events]

    found = recorded()
    with Watching():
        assert recorded() == found
    assert [name for kind, name, *_ in found if kind == "kernel"] == ["mm"]


def test_a_graph_computes_it_again(accelerator):
    x, weight = torch.ones(2, 3, 5, device="sim"), torch.ones(4, 5, device="sim")
    graph = accelerator.graph()
    with torch.no_grad(), graph.capture():
        out = F.linear(x, weight)
    x.fill_(2)
    graph.replay()
    assert out.unique().tolist() == [10]


@pytest.mark.parametrize(
    "x, weight",
    [
        (torch.rand(2, 3, 5), torch.rand(4, 6)),
        (torch.rand(2, 3, 5), torch.rand(4, 5).double()),
        (torch.rand(3, 5), torch.rand(4, 5, 2)),
    ],
)
def test_a_mistake_is_told_as_on_the_cpu(accelerator, x, weight):
    with torch.no_grad():
        with pytest.raises(RuntimeError) as of_cpu:
            F.linear(x, weight)
        with pytest.raises(RuntimeError) as of_sim:
            F.linear(x.to("sim"), weight.to("sim"))
    assert str(of_sim.value) == str(of_cpu.value)


@pytest.mark.parametrize(
    ("rows", "columns", "inner", "kernels"),
    [
        (768, 192, 192, 1),
        (768, 768, 192, 1),
        (1464, 2048, 256, 1),
        (16, 64, 1024, 1),
        (104, 36, 8, 3),
        (32, 384, 128, 3),
        (128, 126, 3323, 2),
        (64, 1, 512, 2),
    ],
)
def test_a_layer_has_the_kernels_that_an_h100_took(accelerator, rows, columns, inner, kernels):
    layer = torch.nn.Linear(inner, columns, device=accelerator.device)
    x = torch.ones(rows, inner, device=accelerator.device)
    with torch.no_grad(), debubble.record(accelerator) as timeline:
        layer(x)
    assert len([event for event in timeline.events if event.kind == "kernel"]) == kernels
