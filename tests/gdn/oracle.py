"""The definition of the gated delta rule in plain PyTorch. Read `definition`; compare with
`recurrence`, which computes the same for all sequences and heads at once."""

from __future__ import annotations

from itertools import pairwise

import torch


def definition(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float,
    states: torch.Tensor,
    cu_seqlens: list[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (o [1, T, HV, V], final states [N, HV, V, K]) in float64 on the CPU, computed token
    by token and head by head. Queries and keys are not normalised."""
    q, k, v, g, beta = (x[0].cpu().double() for x in (q, k, v, g, beta))
    group = v.shape[1] // k.shape[1]
    o, final = torch.zeros_like(v), states.cpu().double().clone()
    for n, (start, end) in enumerate(pairwise(cu_seqlens)):
        for head in range(v.shape[1]):
            state = final[n, head]
            for t in range(start, end):
                key, query = k[t, head // group], q[t, head // group]
                state = state * g[t, head].exp()
                change = beta[t, head] * (v[t, head] - state @ key)
                state = state + torch.outer(change, key)
                o[t, head] = scale * (state @ query)
            final[n, head] = state
    return o[None], final


def recurrence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: list[int] | None = None,
    l2norm: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (o [1, T, HV, V], final_state [N, HV, V, K]) in float32 on the CPU. They are computed
    in float64, on the GPU if the inputs are there, in as many steps as the longest sequence has
    tokens.

    The inputs have the shapes of `chunk_gated_delta_rule`. `cu_seqlens` is a list, or None for one
    sequence of all tokens.
    """
    device = q.device if q.device.type == "cuda" else torch.device("cpu")
    q, k, v, g, beta = (x.detach().to(device)[0].double() for x in (q, k, v, g, beta))
    num_tokens, num_heads, key_size = k.shape
    _, num_value_heads, value_size = v.shape
    if l2norm:
        q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    scale = key_size**-0.5 if scale is None else scale
    starts = torch.tensor([0, num_tokens] if cu_seqlens is None else cu_seqlens)
    lengths, longest_first = starts.diff().sort(descending=True)
    states = torch.zeros(
        (len(lengths), num_value_heads, value_size, key_size), dtype=torch.float64, device=device
    )
    if initial_state is not None:
        states.copy_(initial_state.detach().to(device)[longest_first.to(device)])

    # Tokens are in the order of their steps. All sequences that are long enough take a step
    # together, since they are independent, and they come first.
    steps = torch.arange(max(lengths.tolist(), default=0))[:, None]
    takes_part = steps < lengths
    order = (starts[longest_first] + steps)[takes_part].to(device)
    decay, q, k, v, beta = (x[order] for x in (g.exp(), q, k, v, beta))
    o = torch.empty_like(v)
    by_key_head = states.unflatten(1, (num_heads, -1))
    done = 0
    for num_active in takes_part.sum(1).tolist():
        tokens = slice(done, done := done + num_active)
        state, shared_state = states[:num_active], by_key_head[:num_active]
        key, query = k[tokens, :, None, :, None], q[tokens, :, None, :, None]
        state *= decay[tokens, :, None, None]
        predicted = (shared_state @ key).reshape(v[tokens].shape)
        change = (beta[tokens, :, None] * (v[tokens] - predicted)).view_as(predicted)
        shared_state.addcmul_(
            change.unflatten(1, (num_heads, -1))[..., None], key.transpose(-1, -2)
        )
        o[tokens] = (shared_state @ query).reshape(v[tokens].shape) * scale

    in_place = o.new_zeros(num_tokens, num_value_heads, value_size).index_copy_(0, order, o)
    final = torch.empty_like(states).index_copy_(0, longest_first.to(device), states)
    return in_place[None].float().cpu(), final.float().cpu()


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Returns ‖got - expected‖ / ‖expected‖, or ‖got‖ if `expected` is zero."""
    got, expected = got.detach().cpu().double(), expected.detach().cpu().double()
    norm = expected.norm()
    return float((got - expected).norm() / (norm if norm > 0 else 1.0))
