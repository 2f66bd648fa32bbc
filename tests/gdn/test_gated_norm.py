"""The gated norm, compared with PyTorch in double precision."""

import pytest
import torch

from solutions.gdn.model.gated_norm import TILE, gated_rms_norm
from tests.common import claims
from tests.common.refusals import changed, expect_refused

from .oracle import relative_error

EPS = 1e-6
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 6e-3, torch.float16: 1e-3}


def random_args(accelerator, shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    send = lambda *size: torch.randn(size, generator=generator).to(dtype).to(accelerator.device)
    return {"x": send(*shape), "z": send(*shape), "weight": send(shape[-1])}


def expected(x, z, weight, eps=EPS):
    x, z, weight = (tensor.cpu().double() for tensor in (x, z, weight))
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight * z * z.sigmoid()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 16), (3, 2, 16), (5, 3, 24), (2, 1, 1), (TILE // 16 + 1, 1, 16), (2, 2, 128)],
    ids=str,
)
def test_each_head_of_each_token_is_normalised_and_gated(accelerator, shape, dtype):
    args = random_args(accelerator, shape, dtype)
    found = gated_rms_norm(**args, eps=EPS)
    assert found.dtype == dtype
    assert found.shape == shape
    assert relative_error(found, expected(**args)) < TOLERANCE[dtype]


def test_an_empty_batch_is_nothing(accelerator):
    assert gated_rms_norm(**random_args(accelerator, (0, 2, 16)), eps=EPS).shape == (0, 2, 16)


def test_a_gate_that_is_a_part_of_a_wider_projection(accelerator):
    args = random_args(accelerator, (3, 2, 16))
    wider = torch.cat([torch.full((3, 40), torch.nan), args["z"].flatten(1).cpu()], 1)
    part = wider.to(accelerator.device)[:, 40:].unflatten(1, (2, 16))
    assert not part.is_contiguous()
    found = gated_rms_norm(**args | {"z": part}, eps=EPS)
    assert relative_error(found, expected(**args)) < TOLERANCE[torch.float32]


def test_a_row_of_zeros_is_zeros(accelerator):
    """The norm of zeros is zeros and not NaN. Heads of tokens that are not computed are zero."""
    args = random_args(accelerator, (2, 2, 16))
    args["x"].zero_()
    assert not gated_rms_norm(**args, eps=EPS).any()


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("gate", [-1e4, 1e4])
def test_a_gate_may_be_shut_or_wide_open(accelerator, gate):
    args = random_args(accelerator, (1, 1, 16))
    args["z"].fill_(gate)
    found = gated_rms_norm(**args, eps=EPS)
    assert relative_error(found, expected(**args)) < TOLERANCE[torch.float32]


def test_eps_matters_where_numbers_are_small(accelerator):
    args = random_args(accelerator, (1, 1, 16))
    args["x"].mul_(1e-3)
    found = gated_rms_norm(**args, eps=1e-5)
    assert relative_error(found, expected(**args, eps=1e-5)) < TOLERANCE[torch.float32]


def test_nan_stays_in_its_head_and_is_seen_there(accelerator):
    for name in ("x", "z"):
        args = random_args(accelerator, (3, 2, 16))
        right = expected(**args)
        args[name][1, 0, 5] = torch.nan
        found = gated_rms_norm(**args, eps=EPS).cpu()
        assert found[1, 0, 5].isnan()
        assert found[1, 0].isnan().all() == (name == "x")
        found[1, 0] = right[1, 0]
        assert relative_error(found, right) < TOLERANCE[torch.float32]


def test_one_launch_and_nobody_waits(accelerator):
    args = random_args(accelerator, (3, 2, 16))
    call = lambda: gated_rms_norm(**args, eps=EPS)
    assert claims.expect_no_wait(accelerator, call, 0)["kernels"] == 1


BAD_ARGUMENTS = {
    r"x of shape \[3, 2, 16\] and z of \[3, 1, 16\]": {"z": lambda x: x[:, :1]},
    r"x of shape \[6, 16\] and z of \[6, 16\]": dict.fromkeys("xz", lambda x: x.flatten(0, 1)),
    r"a weight of shape \[8\] for rows of 16": {"weight": lambda x: x[:8]},
    "rows of 8192 numbers": dict.fromkeys("xz", lambda x: x.repeat(1, 1, 512)),
    "z of torch.float64": {"z": lambda x: x.double()},
    "x of strides": {"x": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)},
}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    args = random_args(accelerator, (3, 2, 16))
    bad = changed(args, BAD_ARGUMENTS[message])
    expect_refused(accelerator, lambda: gated_rms_norm(**bad, eps=EPS), message, unchanged=())
