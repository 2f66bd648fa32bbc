"""Checks and completes the arguments of the delta rule, in the chunked and in the recurrent form.

Only shapes, dtypes, strides and devices are checked, which the host knows: reading a value would
make it wait. So a wrong value on the device raises no error.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from solutions.common.decoder.shape import FLOATS

from ..device_tables import prepare_chunk_tables_on_device
from .chunks import ChunkTables, check_tables


def is_dense(tensor: torch.Tensor, first_dimension: int) -> bool:
    """True if each part of the tensor, at fixed indices of the dimensions before `first_dimension`
    (at least 1), is contiguous."""
    expected = 1
    for dimension in range(tensor.dim() - 1, first_dimension - 1, -1):
        size = tensor.shape[dimension]
        if size != 1 and tensor.stride(dimension) != expected:
            return False
        expected *= size
    return True


CHUNKED_SIZES = (16, 32, 64, 128)
LARGEST_KEY = 256


def check_tokens(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
) -> None:
    """Raises ValueError unless q, k [1, T, H, K] and v [1, T, HV, V] are of one dtype, g is [1, T,
    HV] float32 and beta [1, T, HV], all on one device with the heads of a token contiguous."""
    if q.dim() != 4 or len(q) != 1 or k.shape != q.shape:
        raise ValueError(
            f"q of shape {list(q.shape)} and k of {list(k.shape)}: make both [1, T, H, K]"
        )
    num_tokens, num_heads, key_size = q.shape[1:]
    if v.dim() != 4 or v.shape[:2] != q.shape[:2] or not num_heads or v.shape[2] % num_heads:
        raise ValueError(
            f"v of shape {list(v.shape)}: make it [1, {num_tokens}, HV, V], HV a multiple of "
            f"{num_heads} key heads"
        )
    if not 1 <= key_size <= LARGEST_KEY:
        raise ValueError(
            f"keys of size {key_size}: this kernel holds 1 to {LARGEST_KEY} in its registers"
        )
    if q.dtype not in FLOATS or not q.dtype == k.dtype == v.dtype:
        raise ValueError(
            f"q, k and v of {q.dtype}, {k.dtype} and {v.dtype}: use one of bfloat16, float16 and "
            "float32"
        )
    for name, tensor, dtypes in (("g", g, (torch.float32,)), ("beta", beta, FLOATS)):
        if tensor.shape != v.shape[:3] or tensor.dtype not in dtypes:
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}: make it {list(v.shape[:3])}, "
                f"{dtypes[-1]}"
            )
    for name, tensor in (("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta)):
        if tensor.device != q.device:
            raise ValueError(f"{name} is on {tensor.device}, and q on {q.device}: use one device")
        if not is_dense(tensor, first_dimension=2):
            raise ValueError(
                f"{name} of strides {tensor.stride()}: the heads of a token must be contiguous"
            )


def check_chunked_sizes(q: torch.Tensor, v: torch.Tensor) -> None:
    """Raises ValueError unless the matrix products of a chunk can take the sizes of these keys and
    values."""
    for name, size in (("keys", q.shape[3]), ("values", v.shape[3])):
        if size not in CHUNKED_SIZES:
            sizes = ", ".join(map(str, CHUNKED_SIZES))
            raise ValueError(f"{name} of size {size}: the chunked kernels take one of {sizes}")


STATE_TYPES = (torch.float32, torch.bfloat16)
STATE_ARGUMENTS = ("initial_state", "state_indices", "has_initial_state")
"""Names of the public arguments that become the three fields of SequenceStates."""


class SequenceStates(NamedTuple):
    """The states that the sequences start from: one for each sequence, or a pool in which each
    sequence has a slot; see `chunk_gated_delta_rule`."""

    initial: torch.Tensor | None
    slots: torch.Tensor | None
    has_initial: torch.Tensor | None

    def check(self, num_seqs: int, shape: tuple[int, int, int], device: torch.device) -> None:
        """Raises ValueError unless these can be the states of `num_seqs` sequences, each of `shape`
        (HV, V, K), on `device`. Values on the device are not read."""
        for name, tensor in zip(STATE_ARGUMENTS, self, strict=True):
            if tensor is not None and tensor.device != device:
                raise ValueError(
                    f"{name} is on {tensor.device}, and the tokens on {device}: use one device"
                )
        for name, tensor, dtype in (
            ("state_indices", self.slots, torch.int32),
            ("has_initial_state", self.has_initial, torch.bool),
        ):
            if tensor is None:
                continue
            if self.initial is None:
                raise ValueError(f"{name} without initial_state: give the states that it is about")
            if tensor.shape != (num_seqs,) or tensor.dtype != dtype or not tensor.is_contiguous():
                raise ValueError(
                    f"{name} is {tensor.dtype} {list(tensor.shape)}: for {num_seqs} sequences make "
                    f"it {dtype} [{num_seqs}], contiguous"
                )
        if self.initial is None:
            return
        count = "num_slots" if self.slots is not None else str(num_seqs)
        fits = self.initial.dim() == 4 and self.initial.shape[1:] == shape
        if self.slots is None:
            fits = fits and len(self.initial) == num_seqs
        if not fits or self.initial.dtype not in STATE_TYPES or not is_dense(self.initial, 1):
            raise ValueError(
                f"initial_state is {self.initial.dtype} {list(self.initial.shape)} with strides "
                f"{self.initial.stride()}: make it float32 or bfloat16 "
                f"[{count}, {', '.join(map(str, shape))}], each state contiguous"
            )

    @property
    def constants(self) -> dict[str, bool]:
        """Constants of the kernels that read the states, by the names of their parameters."""
        return {
            "HAS_INITIAL": self.initial is not None,
            "HAS_FLAGS": self.has_initial is not None,
            "IN_POOL": self.slots is not None,
        }

    def or_instead(
        self, state: torch.Tensor, table: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns (initial, slots, has_initial) for a kernel, which reads none that is not given:
        `state` or `table` stands for it."""
        return (
            state if self.initial is None else self.initial,
            table if self.slots is None else self.slots,
            table if self.has_initial is None else self.has_initial,
        )

    def room_for_final(
        self, num_seqs: int, shape: tuple[int, int, int], device: torch.device
    ) -> torch.Tensor:
        """Returns the tensor to write the final states to: the pool itself if there is one, or else
        an uninitialised [num_seqs, *shape] float32."""
        if self.initial is not None and self.slots is not None:
            return self.initial
        return torch.empty(num_seqs, *shape, dtype=torch.float32, device=device)


def check_sequences(
    tokens: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None,
    chunk_offsets: torch.Tensor | None,
) -> int:
    """Returns the number of sequences. Raises ValueError if these can't be the starts and the
    tables of `tokens` [1, T, ...], or if only one table is given. Arguments that are None are not
    checked: `sequences_of` makes them later."""
    num_seqs = 1 if cu_seqlens is None else _count(cu_seqlens, tokens.device)
    for name, table, other in (
        ("chunk_indices", chunk_indices, chunk_offsets),
        ("chunk_offsets", chunk_offsets, chunk_indices),
    ):
        if table is None:
            continue
        if other is None:
            raise ValueError(f"{name} alone: give both tables, of the same cu_seqlens, or none")
        if table.device != tokens.device:
            raise ValueError(
                f"{name} is on {table.device}, and the tokens on {tokens.device}: upload the "
                "tables once a step, with upload_chunk_tables"
            )
    if chunk_indices is not None and chunk_offsets is not None:
        check_tables(chunk_indices, chunk_offsets, num_seqs, tokens.shape[1])
    return num_seqs


def sequences_of(
    tokens: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    chunk_indices: torch.Tensor | None,
    chunk_offsets: torch.Tensor | None,
) -> tuple[torch.Tensor, ChunkTables]:
    """Returns (cu_seqlens, tables) as given, which the caller has checked. Those that are None are
    made on the device, with no upload and no wait: starts of one sequence of all tokens, and tables
    of the starts."""
    cu_seqlens = _starts(tokens, cu_seqlens)
    if chunk_indices is None or chunk_offsets is None:
        return cu_seqlens, prepare_chunk_tables_on_device(cu_seqlens, tokens.shape[1])
    return cu_seqlens, ChunkTables(chunk_indices, chunk_offsets)


def _starts(tokens: torch.Tensor, cu_seqlens: torch.Tensor | None) -> torch.Tensor:
    """Returns `cu_seqlens`, or if that is None the [2] int32 starts of a single sequence of all
    tokens."""
    if cu_seqlens is not None:
        return cu_seqlens
    return torch.arange(2, dtype=torch.int32, device=tokens.device) * tokens.shape[1]


def _count(cu_seqlens: torch.Tensor, device: torch.device) -> int:
    if (
        cu_seqlens.dim() != 1
        or not len(cu_seqlens)
        or cu_seqlens.dtype != torch.int32
        or cu_seqlens.device != device
        or not cu_seqlens.is_contiguous()
    ):
        raise ValueError(
            f"cu_seqlens is {cu_seqlens.dtype} {list(cu_seqlens.shape)} with strides "
            f"{list(cu_seqlens.stride())} on {cu_seqlens.device}: make it torch.int32 "
            f"[sequences + 1] on {device}, contiguous"
        )
    return len(cu_seqlens) - 1
