"""Families of transformers' models give the same results on sim as on the CPU: forward, generation,
and after a step of training."""

import copy

import pytest
import torch

from .families import LANGUAGE, OTHERS, language_model, other_model

pytestmark = [pytest.mark.sim, pytest.mark.deep, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("transformers", reason="transformers is not installed here")


@pytest.fixture
def ids():
    return torch.randint(3, 100, (2, 8), generator=torch.Generator().manual_seed(0))


def on_both(model, device):
    return model.eval(), copy.deepcopy(model).to(device).eval()


def expect_close(got, expected):
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", LANGUAGE)
def test_a_language_model_computes_generates_and_learns(accelerator, library, ids, family):
    torch.manual_seed(0)
    model, twin = on_both(language_model(library, family), accelerator.device)
    there = ids.to(accelerator.device)
    with torch.no_grad():
        expect_close(twin(there).logits, model(ids).logits)
        greedy = {"max_new_tokens": 4, "do_sample": False}
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), **greedy)
        got = twin.generate(there, attention_mask=torch.ones_like(there), **greedy)
        assert got.tolist() == expected.tolist()
    losses = [steps(model, ids), steps(twin, there)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[0][1] < losses[0][0]


def steps(model, ids):
    """Trains the model for two steps, and returns the loss of each."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("family", OTHERS)
def test_another_model_computes_and_has_gradients(accelerator, library, family):
    torch.manual_seed(0)
    model, given = other_model(library, family)
    model, twin = on_both(model, accelerator.device)
    there = {name: tensor.to(accelerator.device) for name, tensor in given.items()}
    expected, got = (first_of(run, to) for run, to in ((model, given), (twin, there)))
    expect_close(got.detach(), expected.detach())
    for out in (expected, got):
        out.float().square().mean().backward()
    for (name, a), b in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            expect_close(b.grad, a.grad)


def first_of(model, given):
    return next(v for v in model(**given).values() if isinstance(v, torch.Tensor))
