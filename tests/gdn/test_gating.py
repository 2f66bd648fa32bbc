"""The gates, compared with PyTorch in double precision."""

import pytest
import torch

from solutions.gdn.model.gating import BLOCK, fused_gdn_gating
from tests.common import claims
from tests.common.refusals import changed, expect_refused


def random_args(accelerator, num_tokens, num_heads, dtype=torch.float32, spread=3.0):
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape, dtype=dtype):
        values = torch.randn(shape, generator=generator) * spread
        return values.to(dtype).to(accelerator.device)

    return {
        "A_log": numbers(num_heads, dtype=torch.float32),
        "a": numbers(num_tokens, num_heads),
        "b": numbers(num_tokens, num_heads),
        "dt_bias": numbers(num_heads),
    }


def expected(A_log, a, b, dt_bias):
    """Returns the right (g, beta), [1, T, HV] float32, computed in double precision."""
    A_log, a, b, dt_bias = (tensor.cpu().double() for tensor in (A_log, a, b, dt_bias))
    g = -A_log.exp() * torch.nn.functional.softplus(a + dt_bias, threshold=50.0)
    return g[None].float(), b.sigmoid()[None].float()


def expect_gates(accelerator, args):
    found = fused_gdn_gating(**args)
    for tensor, right in zip(found, expected(**args), strict=True):
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor.cpu(), right, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("num_tokens", "num_heads"), [(1, 1), (3, 2), (BLOCK, 3), (50, 32)])
def test_gates_of_every_token_and_head(accelerator, num_tokens, num_heads, dtype):
    expect_gates(accelerator, random_args(accelerator, num_tokens, num_heads, dtype))


def test_an_empty_batch_is_nothing(accelerator):
    g, beta = fused_gdn_gating(**random_args(accelerator, 0, 2))
    assert g.shape == beta.shape == (1, 0, 2)


@pytest.mark.parametrize("x", [-80.0, -20.0, -9.0, 0.0, 19.9, 20.1, 100.0, 1e30])
def test_softplus_is_exact_where_one_plus_exp_is_not(accelerator, x):
    """The gates are right for very small and very large inputs, where softplus is exp(x) or x:
    computing 1 + exp(x) would lose either."""
    args = random_args(accelerator, 1, 1)
    for name, value in (("A_log", 0.0), ("a", x), ("dt_bias", 0.0)):
        args[name].fill_(value)
    expect_gates(accelerator, args)


def test_two_halves_of_one_projection(accelerator):
    args = random_args(accelerator, 7, 4, torch.bfloat16)
    args["b"], args["a"] = torch.cat([args["b"], args["a"]], 1).chunk(2, dim=1)
    assert args["a"].stride() == (8, 1)
    expect_gates(accelerator, args)


def test_nan_stays_in_its_gate_and_is_seen_there(accelerator):
    args = random_args(accelerator, 3, 2)
    right = expected(**args)
    args["a"][1, 0] = args["b"][2, 1] = torch.nan
    g, beta = (tensor.cpu() for tensor in fused_gdn_gating(**args))
    for tensor, expected_here, broken in ((g, right[0], (0, 1, 0)), (beta, right[1], (0, 2, 1))):
        assert tensor.isnan().sum() == 1
        assert tensor[broken].isnan()
        tensor[broken] = expected_here[broken]
        torch.testing.assert_close(tensor, expected_here)


def test_one_launch_and_nobody_waits(accelerator):
    args = random_args(accelerator, 3, 2)
    call = lambda: fused_gdn_gating(**args)
    assert claims.expect_no_wait(accelerator, call, 0)["kernels"] == 1


BAD_ARGUMENTS = {
    r"b of shape \[3, 1\], with a of \[3, 2\]": {"b": lambda x: x[:, :1]},
    r"a of shape \[2\]": {"a": lambda x: x[0]},
    r"b of strides \(1, 3\)": {"b": lambda x: x.T.contiguous().T},
    r"A_log of shape \[1\] for 2 heads": {"A_log": lambda x: x[:1]},
    r"dt_bias of shape \[3\] for 2 heads": {"dt_bias": lambda x: x.repeat(2)[:3]},
    "a of torch.float64": {"a": lambda x: x.double()},
    "dt_bias of torch.int32": {"dt_bias": lambda x: x.int()},
}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    args = random_args(accelerator, 3, 2)
    bad = changed(args, BAD_ARGUMENTS[message])
    expect_refused(accelerator, lambda: fused_gdn_gating(**bad), message, unchanged=())
