"""The oracle that our kernels are compared with equals the definition, token by token."""

import pytest
import torch

from .oracle import definition, recurrence, relative_error
from .sequences import Sequences

OF_FLOAT32 = 1e-7
"""The largest relative error of float64 results that are rounded to float32."""


def expect_as_defined(sequences, o, final, scale=None, states=None, **changes):
    states = (
        torch.zeros(len(sequences.lengths), *sequences.state_shape) if states is None else states
    )
    scale = sequences.k.shape[3] ** -0.5 if scale is None else scale
    right, right_states = definition(
        **sequences.args | changes, scale=scale, states=states, cu_seqlens=sequences.starts
    )
    assert o.dtype == final.dtype == torch.float32
    assert o.shape == right.shape and final.shape == right_states.shape
    assert relative_error(o, right) < OF_FLOAT32
    assert relative_error(final, right_states) < OF_FLOAT32


@pytest.mark.parametrize("heads", [(1, 1), (1, 3), (2, 4), (3, 3)], ids=str)
@pytest.mark.parametrize("lengths", [[5], [3, 0, 7, 1, 7, 0], [1, 1, 4], [0], []], ids=str)
def test_all_at_once_is_one_after_the_other(accelerator, lengths, heads):
    sequences = Sequences.random(accelerator, lengths, heads)
    expect_as_defined(sequences, *sequences.expected())
    states = sequences.states()
    expect_as_defined(sequences, *sequences.expected(states), states=states)


def test_scale_is_the_callers_choice(accelerator):
    sequences = Sequences.random(accelerator, [2, 4])
    expect_as_defined(sequences, *sequences.expected(scale=3.0), scale=3.0)


def test_queries_and_keys_get_length_one_where_that_is_asked_for(accelerator):
    sequences = Sequences.random(accelerator, [2, 4], normalized=False)
    q, k = (x.cpu().double() for x in (sequences.q, sequences.k))
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    expect_as_defined(sequences, *sequences.expected(l2norm=True), q=q, k=k)


def test_tokens_of_nobody_come_to_nothing(accelerator):
    sequences = Sequences.random(accelerator, [5])
    o, _ = recurrence(**sequences.args, cu_seqlens=[0, 3])
    assert o[:, :3].any()
    assert not o[:, 3:].any()
