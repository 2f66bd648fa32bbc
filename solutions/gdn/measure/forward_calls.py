"""Random sequences, and the forwards that run on them: ours and the peers'."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import torch
import torch.nn.functional as F

from ..host_tables import upload_chunk_tables
from ..model.delta_inputs import DeltaArguments
from ..rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from ..rule.chunks import ChunkTables
from .batches import MILD, STRONG
from .peer import Rule

HEADS, SIZE = 16, 128
"""Number of heads of queries, keys and values, and the size of each head."""
OURS, NO_TABLES = "ours", "no tables"
"""Names of our forward: with the tables of the step, and making them in each call."""
MILDEST = -0.01
"""The strongest decay of a mild gate, as a logarithm."""


class ForwardArguments(DeltaArguments):
    """Arguments that our forward and the peers' take under the same names."""

    output_final_state: bool


Forward = Callable[[], tuple[torch.Tensor, torch.Tensor | None]]
"""A call without arguments that runs a forward and returns (o, final states), with the states in
the forward's own layout."""


class Sequences:
    """A batch of sequences of given lengths: where they start and their chunk tables, in the form
    that each forward takes. They are made once a step and not by the layers, so no measured call
    pays for them."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        self.number, self.num_tokens, self.device = len(lengths), sum(lengths), device
        self.starts, self.starts_of_peers = starts.to(device), starts.long().to(device)
        self.tables: ChunkTables = upload_chunk_tables(starts, device)


class RuleInputs(NamedTuple):
    """Inputs of the rule: q, k, v [1, T, H, 128] and beta [1, T, H] bfloat16, g [1, T, H] float32,
    and states [N, H, 128, 128] float32."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor
    beta: torch.Tensor
    states: torch.Tensor

    @classmethod
    def random(
        cls, sequences: Sequences, normalizes: bool = True, gate: str = STRONG
    ) -> RuleInputs:
        """Returns random inputs for these sequences. If `normalizes` is False, queries and keys
        have length 1 already; otherwise the forward scales them to it. A strong `gate` is the
        logsigmoid of normal numbers, a mild one is uniform in -0.01 to 0."""

        def numbers(*shape: int) -> torch.Tensor:
            return torch.randn(shape, device=sequences.device)

        shape = (1, sequences.num_tokens, HEADS, SIZE)
        q, k, v = (numbers(*shape) for _ in range(3))
        if not normalizes:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        if gate == MILD:
            g = MILDEST * torch.rand(shape[:3], device=sequences.device)
        else:
            g = F.logsigmoid(numbers(*shape[:3]))
        return cls(
            q.bfloat16(),
            k.bfloat16(),
            v.bfloat16(),
            g,
            numbers(*shape[:3]).sigmoid().bfloat16(),
            numbers(sequences.number, HEADS, SIZE, SIZE),
        )


def forwards(
    sequences: Sequences,
    inputs: RuleInputs,
    peers: Mapping[str, Rule],
    normalizes: bool = True,
) -> dict[str, Forward]:
    """Returns calls of the forwards to compare on these inputs, by name: `OURS`, `NO_TABLES`, and
    the peers. All start from states and return final states."""
    given: ForwardArguments = {
        "q": inputs.q,
        "k": inputs.k,
        "v": inputs.v,
        "g": inputs.g,
        "beta": inputs.beta,
        "use_qk_l2norm_in_kernel": normalizes,
        "output_final_state": True,
    }

    def ours(
        chunk_indices: torch.Tensor | None = None, chunk_offsets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return chunk_gated_delta_rule(
            **given,
            initial_state=inputs.states,
            cu_seqlens=sequences.starts,
            chunk_indices=chunk_indices,
            chunk_offsets=chunk_offsets,
        )

    found: dict[str, Forward] = {OURS: lambda: ours(*sequences.tables), NO_TABLES: ours}
    if peers:
        # The peers keep the transposed states.
        states, starts = inputs.states.transpose(2, 3).contiguous(), sequences.starts_of_peers
        for name, rule in peers.items():
            found[name] = partial(rule, **given, initial_state=states, cu_seqlens=starts)
    return found
