"""The residual sum and its norm, compared with PyTorch in double precision."""

import pytest
import torch

from solutions.common.decoder.add_rms_norm import TILE, add_rms_norm
from tests.common import claims
from tests.common.refusals import changed, expect_refused

EPS = 1e-5
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}
"""The largest absolute error of numbers around 1, by type."""
SHAPES = [(1, 16), (3, 100), (TILE // 16 + 1, 16), (2, 1), (2, 4096), (1, 5000)]


def random_args(accelerator, shape, dtype=torch.float32):
    random = torch.Generator().manual_seed(1)
    send = lambda *size: torch.randn(size, generator=random).to(dtype).to(accelerator.device)
    return {"residual": send(*shape), "update": send(*shape), "weight": send(shape[-1])}


def expected(residual, update, weight, eps=EPS):
    residual, weight = residual.cpu().double(), weight.cpu().double()
    total = residual if update is None else residual + update.cpu().double()
    return total / (total.square().mean(-1, keepdim=True) + eps).sqrt() * weight, total


def expect_right(args, call=add_rms_norm):
    normed, total = expected(**args)
    found = call(**args, eps=EPS)
    tolerance = TOLERANCE[found.dtype]
    assert found.dtype == args["residual"].dtype
    assert (found.cpu() - normed).abs().max() < tolerance
    assert (args["residual"].cpu() - total).abs().max() < tolerance


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_residual_is_summed_in_place_and_normalised(accelerator, shape, dtype):
    expect_right(random_args(accelerator, shape, dtype))


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_without_an_update_it_is_the_norm_alone(accelerator, shape):
    args = random_args(accelerator, shape) | {"update": None}
    before = args["residual"].cpu().clone()
    expect_right(args)
    assert torch.equal(args["residual"].cpu(), before)


def test_the_update_stays_as_it_is(accelerator):
    args = random_args(accelerator, (3, 100))
    before = args["update"].cpu().clone()
    add_rms_norm(**args, eps=EPS)
    assert torch.equal(args["update"].cpu(), before)


def test_a_row_of_zeros_is_zeros(accelerator):
    args = random_args(accelerator, (2, 16))
    args["update"].copy_(-args["residual"])
    assert not add_rms_norm(**args, eps=EPS).any()


def test_nan_stays_in_its_row(accelerator):
    args = random_args(accelerator, (3, 16))
    normed, _ = expected(**args)
    args["update"][1, 5].fill_(torch.nan)
    found = add_rms_norm(**args, eps=EPS).cpu()
    assert found[1].isnan().all()
    found[1] = normed[1]
    assert (found - normed).abs().max() < TOLERANCE[torch.float32]


def test_eps_matters_where_numbers_are_small(accelerator):
    args = random_args(accelerator, (1, 16))
    args["residual"].mul_(1e-3)
    args["update"].mul_(1e-3)
    normed, _ = expected(**args, eps=1e-5)
    assert (add_rms_norm(**args, eps=1e-5).cpu() - normed).abs().max() < TOLERANCE[torch.float32]


def test_an_empty_step_is_nothing(accelerator):
    assert add_rms_norm(**random_args(accelerator, (0, 16)), eps=EPS).shape == (0, 16)


def test_one_launch_and_nobody_waits(accelerator):
    args = random_args(accelerator, (3, 16))
    call = lambda: add_rms_norm(**args, eps=EPS)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=0)
    assert (counts["kernels"], counts["d2d"]) == (1, 0)


def test_a_graph_sums_what_is_there_when_it_is_replayed(accelerator):
    args = random_args(accelerator, (3, 16))
    graph, normed = claims.captured(accelerator, lambda: add_rms_norm(**args, eps=EPS))

    def replayed(residual, update, weight, eps):
        graph.replay()
        return normed

    for _ in range(2):
        expect_right(args, replayed)


BAD_ARGUMENTS = {
    r"update is torch.float32 \[2, 16\]: .* torch.float32 \[3, 16\]": {"update": lambda x: x[:2]},
    "update is torch.float16": {"update": lambda x: x.half()},
    r"weight is torch.float32 \[8\]: .* torch.float32 \[16\]": {"weight": lambda x: x[:8]},
    "residual is torch.float64": {"residual": lambda x: x.double()},
    r"residual is torch.float32 \[48\]": {"residual": lambda x: x.flatten()},
    r"residual is torch.float32 \[3, 8\]: .* contiguous": {"residual": lambda x: x[:, :8]},
    "rows of 32800 numbers: this kernel holds 1 to 32768": {
        "residual": lambda x: x.repeat(1, 2050)
    },
}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    args = random_args(accelerator, (3, 16))
    bad = changed(args, BAD_ARGUMENTS[message])
    residual = (args["residual"],)
    expect_refused(accelerator, lambda: add_rms_norm(**bad, eps=EPS), message, unchanged=residual)
