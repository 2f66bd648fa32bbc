"""The gates of an MLP, compared with PyTorch in double precision."""

import pytest
import torch

from solutions.common.decoder.silu_and_mul import TILE, silu_and_mul
from tests.common import claims
from tests.common.refusals import expect_refused

TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""The largest error relative to the largest result, by type."""


def random_input(accelerator, num_tokens, size, dtype=torch.float32):
    random = torch.Generator().manual_seed(1)
    gate_up = torch.randn(num_tokens, 2 * size, generator=random) * 3
    return gate_up.to(dtype).to(accelerator.device)


def expect_right(gate_up, call=silu_and_mul):
    gate, up = gate_up.cpu().double().chunk(2, dim=1)
    right = gate * gate.sigmoid() * up
    found = call(gate_up)
    assert found.dtype == gate_up.dtype
    assert found.shape == right.shape
    assert (found.cpu() - right).abs().max() <= TOLERANCE[found.dtype] * right.abs().max()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 16), (3, 100), (TILE // 16 + 1, 16), (2, 1), (3, 2 * TILE + 5)], ids=str
)
def test_gates_let_through_what_they_let_through(accelerator, shape, dtype):
    expect_right(random_input(accelerator, *shape, dtype))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_gates_may_be_of_gelu(accelerator, dtype):
    gate_up = random_input(accelerator, 3, 100, dtype)
    gate, up = gate_up.cpu().double().chunk(2, dim=1)
    right = torch.nn.functional.gelu(gate, approximate="tanh") * up
    found = silu_and_mul(gate_up, "gelu_tanh").cpu()
    assert (found - right).abs().max() <= TOLERANCE[dtype] * right.abs().max()


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("gate", [-1e4, 1e4])
def test_a_gate_may_be_shut_or_wide_open(accelerator, gate):
    gate_up = random_input(accelerator, 1, 16)
    gate_up[:, :16].fill_(gate)
    expect_right(gate_up)


def test_an_empty_step_is_nothing(accelerator):
    assert silu_and_mul(random_input(accelerator, 0, 16)).shape == (0, 16)


def test_one_launch_and_nobody_waits(accelerator):
    gate_up = random_input(accelerator, 3, 16)
    call = lambda: silu_and_mul(gate_up)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=0)
    assert (counts["kernels"], counts["d2d"]) == (1, 0)


def test_a_graph_reads_what_is_there_when_it_is_replayed(accelerator):
    gate_up = random_input(accelerator, 3, 16)
    graph, output = claims.captured(accelerator, lambda: silu_and_mul(gate_up))

    def replayed(gate_up):
        graph.replay()
        return output

    for _ in range(2):
        gate_up.mul_(0.5)
        expect_right(gate_up, replayed)


BAD_INPUTS = {
    r"gate_up is torch.float32 \[3, 31\]: make it \[T, 2 \* size\]": lambda x: x[:, :31].clone(),
    r"gate_up is torch.float32 \[3, 16\]: .* contiguous": lambda x: x[:, :16],
    r"gate_up is torch.float32 \[96\]": lambda x: x.flatten(),
    "gate_up is torch.float64": lambda x: x.double(),
}


@pytest.mark.parametrize("message", BAD_INPUTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    bad = BAD_INPUTS[message](random_input(accelerator, 3, 16))
    expect_refused(accelerator, lambda: silu_and_mul(bad), message, unchanged=())
