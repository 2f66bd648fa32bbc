"""The gated delta rule as it is defined: token by token, head by head, in plain PyTorch."""

from __future__ import annotations

from itertools import pairwise

import torch


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
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o [1, T, HV, V], final_state [N, HV, V, K]) in `dtype`, on the CPU. A GPU computes it in
    elementwise steps, which are the same there.

    Shapes of the inputs as in `chunk_gated_delta_rule`; `cu_seqlens` as a list, None for one
    sequence of all tokens.
    """
    device = q.device if q.device.type == "cuda" else torch.device("cpu")
    q, k, v, g, beta = (x.detach().to(device)[0].to(dtype) for x in (q, k, v, g, beta))
    num_tokens, num_heads, key_size = k.shape
    _, num_value_heads, value_size = v.shape
    if l2norm:
        q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    group = num_value_heads // num_heads
    q, k = (x.repeat_interleave(group, 1) for x in (q, k))
    scale = key_size**-0.5 if scale is None else scale
    starts = [0, num_tokens] if cu_seqlens is None else list(cu_seqlens)
    num_seqs = len(starts) - 1
    states = torch.zeros(
        num_seqs, num_value_heads, value_size, key_size, dtype=dtype, device=device
    )
    if initial_state is not None:
        states += initial_state.detach().to(device, dtype)
    o = torch.zeros(num_tokens, num_value_heads, value_size, dtype=dtype, device=device)
    longest = max((end - start for start, end in pairwise(starts)), default=0)
    for step in range(longest):
        # All sequences that are long enough take this step together: they know nothing of another.
        active = [n for n in range(num_seqs) if starts[n + 1] - starts[n] > step]
        at = torch.tensor([starts[n] + step for n in active], device=device)
        state = states[active] * g[at].exp()[:, :, None, None]
        predicted = (state * k[at][:, :, None, :]).sum(-1)
        change = beta[at][:, :, None] * (v[at] - predicted)
        state = state + change[:, :, :, None] * k[at][:, :, None, :]
        states[active] = state
        o[at] = (state * q[at][:, :, None, :]).sum(-1) * scale
    return o[None].cpu(), states.cpu()


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """‖got - expected‖ / ‖expected‖, or ‖got‖ where nothing is expected."""
    got, expected = got.detach().cpu().double(), expected.detach().cpu().double()
    norm = expected.norm()
    return float((got - expected).norm() / (norm if norm > 0 else 1.0))
