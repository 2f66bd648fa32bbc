"""Sequences of any lengths, with the delta rule's inputs for each token, and the expected
results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from solutions.gdn.device_tables import prepare_chunk_tables_on_device
from solutions.gdn.host_tables import upload_chunk_tables
from solutions.gdn.rule.chunks import ChunkTables

from .chunks import starts_of
from .oracle import recurrence, relative_error

TOLERANCE = {torch.bfloat16: 5e-3, torch.float16: 5e-3, torch.float32: 1e-4}
"""The largest relative error against the recurrence, by the type of the inputs."""
AROUND_A_CHUNK = [1, 63, 64, 0, 65]
SLOT_TABLE = [[4, 1, 7], [0, 8, 3]]
"""The slots of two sequences, each with up to two drafts: one for the state after each token."""
SHARED_SLOTS = {
    "of decode steps": ([1, 1, 1], [4, 0, 4], None),
    "of prompts": ([3, 0, 2], [5, 1, 5], None),
    "of drafts": ([2, 2], [[0, 1], [1, 2]], [1, 1]),
    "of a draft, and where another goes on": ([1, 2], [[3, 2], [0, 3]], [1, 1]),
    "of drafts alone, and the first slot": ([2, 2], [[3, 0], [4, 0]], [1, 1]),
}
"""(lengths, slots, accepted tokens) of sequences that write to one slot."""


@dataclass(frozen=True)
class Sequences:
    """The delta rule's inputs for several sequences, on the device: q, k, v, g and beta of all
    tokens. Keys and queries have length one unless made otherwise."""

    lengths: list[int]
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor
    beta: torch.Tensor

    @classmethod
    def random(
        cls,
        accelerator,
        lengths: Sequence[int],
        heads: tuple[int, int] = (1, 2),
        sizes: tuple[int, int] = (16, 32),
        dtype: torch.dtype = torch.float32,
        normalized: bool = True,
        seed: int = 7,
    ) -> Sequences:
        """Returns random inputs for sequences of these lengths. `heads` is (number of key heads,
        number of value heads); `sizes` is (size of a key, size of a value)."""
        generator = torch.Generator().manual_seed(seed)
        numbers = lambda *shape: torch.randn(1, sum(lengths), *shape, generator=generator)
        (num_heads, num_value_heads), (key_size, value_size) = heads, sizes
        q, k = numbers(num_heads, key_size), numbers(num_heads, key_size)
        if normalized:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return cls(
            list(lengths),
            *(x.to(dtype) for x in (q, k, numbers(num_value_heads, value_size))),
            F.logsigmoid(numbers(num_value_heads) + 2.0),
            numbers(num_value_heads).sigmoid().to(dtype),
        ).on(accelerator.device)

    @property
    def args(self) -> dict[str, torch.Tensor]:
        return {name: getattr(self, name) for name in ("q", "k", "v", "g", "beta")}

    @property
    def starts(self) -> list[int]:
        return starts_of(self.lengths).tolist()

    @property
    def cu_seqlens(self) -> torch.Tensor:
        return torch.from_numpy(starts_of(self.lengths)).to(self.q.device)

    @property
    def state_shape(self) -> tuple[int, int, int]:
        return (*self.v.shape[2:], self.k.shape[3])

    def on(self, device: torch.device) -> Sequences:
        return replace(self, **{name: value.to(device) for name, value in self.args.items()})

    def tables(self, made_on: str | None) -> ChunkTables:
        """Returns the chunk tables of these sequences, made on the "host" or on the "device"; both
        are None if `made_on` is None."""
        if made_on is None:
            return ChunkTables(None, None)
        if made_on == "host":
            return upload_chunk_tables(starts_of(self.lengths), self.q.device)
        return prepare_chunk_tables_on_device(self.cu_seqlens, sum(self.lengths))

    def rows(self, n: int) -> slice:
        """Returns the slice of the tokens of sequence `n`."""
        return slice(self.starts[n], self.starts[n + 1])

    def in_order(self, order: Sequence[int]) -> Sequences:
        """Returns the same sequences in the order `order` of their indices."""
        gather = lambda x: torch.cat([x[:, self.rows(n)] for n in order], 1)
        lengths = [self.lengths[n] for n in order]
        changed = {name: gather(value) for name, value in self.args.items()}
        return replace(self, lengths=lengths, **changed)

    def in_one_projection(self, offset: int = 0) -> Sequences:
        """Returns the same inputs as views of two tensors: q, k and v are parts of each row of one,
        beta is a part of the rows of the other. Both begin with `offset` rows of NaN."""

        def side_by_side(*parts: torch.Tensor) -> tuple[torch.Tensor, ...]:
            rows = torch.cat([part.flatten(2) for part in parts], 2)
            wide = F.pad(rows, (0, 0, offset, 0), value=torch.nan)[:, offset:]
            split = wide.split([part[0, 0].numel() for part in parts], 2)
            return tuple(
                x.unflatten(2, part.shape[2:]) for x, part in zip(split, parts, strict=True)
            )

        q, k, v = side_by_side(self.q, self.k, self.v)
        beta, _ = side_by_side(self.beta, self.beta)
        return replace(self, q=q, k=k, v=v, beta=beta)

    def states(self, count: int | None = None, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Returns `count` random states on the device, by default one for each sequence."""
        generator = torch.Generator().manual_seed(11)
        count = len(self.lengths) if count is None else count
        values = torch.randn(count, *self.state_shape, generator=generator)
        return values.to(dtype).to(self.q.device)

    def expected(self, states: torch.Tensor | None = None, **changes):
        """Returns the right (o, final states) in float32 on the CPU, computed by the recurrence.
        `changes` are its other arguments."""
        return recurrence(**self.args, initial_state=states, cu_seqlens=self.starts, **changes)


def expect_close(found: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> None:
    """Checks that the relative error of `found` is within the tolerance for inputs of `dtype`."""
    assert found.shape == right.shape
    error = relative_error(found, right)
    assert error < TOLERANCE[dtype], f"relative error {error:.1e}"


def integers(device: torch.device, values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32).to(device)
