"""A mixture of experts, compared with one that computes each token's experts one by one."""

import pytest
import torch
import torch.nn.functional as F

from solutions.common.decoder.layer import Hidden
from solutions.models.layers.experts import BLOCK_M, BLOCK_N, ExpertShape
from tests.engine.setting import small


@pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "as they are"])
def test_each_token_has_the_experts_that_its_router_says(accelerator, normalised):
    """Each token's output is that of the experts that its router chose, also if an expert has more
    tokens and more columns than a tile."""
    shape = ExpertShape(
        num_experts=3, experts_per_token=2, expert_size=24, shared_size=40, normalised=normalised
    )
    hidden_size, num_tokens = BLOCK_N + 16, 2 * BLOCK_M
    experts = shape(small("spans", model={"hidden_size": hidden_size}).model, accelerator.device)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_tokens, hidden_size, generator=generator)
    found = experts.forward(Hidden(x.to(accelerator.device), None)).update.cpu()
    assert torch.allclose(found, one_by_one(experts, x), atol=1e-4)


def one_by_one(experts, x):
    """Returns the layer's output, [T, hidden_size] on the CPU, computed token by token and expert
    by expert."""
    weights = {name: value.cpu() for name, value in vars(experts).items() if torch.is_tensor(value)}
    shape, hidden_size = experts.shape, x.shape[1]
    gate_up = weights["gate_up"].view(shape.num_experts, -1, hidden_size)
    down = weights["down"].view(shape.num_experts, hidden_size, -1)
    normed = F.rms_norm(x, (hidden_size,), weights["norm"], experts.eps)
    answers = []
    for token in normed:
        chances, chosen = (weights["router"] @ token).softmax(0).topk(shape.experts_per_token)
        if shape.normalised:
            chances = chances / chances.sum()
        gate = (weights["shared_gate"] @ token).sigmoid()
        answer = gate * mlp(token, weights["shared_gate_up"], weights["shared_down"])
        for chance, expert in zip(chances, chosen.tolist(), strict=True):
            answer = answer + chance * mlp(token, gate_up[expert], down[expert])
        answers.append(answer)
    return torch.stack(answers)


def mlp(token, gate_up, down):
    gate, up = (gate_up @ token).chunk(2)
    return down @ (F.silu(gate) * up)
