"""Which keys a query sees: said in positions of a request, evaluated on slots of the KV cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .steps.limits import Limits

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(batch, head, query, key) -> bool, all of one shape or of shapes that broadcast."""


@dataclass(frozen=True)
class Mask:
    """What the layers of one builder see. ValueError for a window without room for a token."""

    causal: bool = True
    """Keys up to the query itself; else those behind it too."""
    sliding_window: int | None = None
    """Tokens: keys less than so far from the query, on each side that it sees."""
    logical_mask_mod: MaskMod | None = None
    """Keys for which this holds as well. Its query and key are positions in one request."""

    def __post_init__(self) -> None:
        if self.sliding_window is not None and self.sliding_window < 1:
            raise ValueError(
                f"a sliding window of {self.sliding_window} tokens: a query sees at least itself, "
                "so use 1 or more, or None for no window"
            )


CAUSAL = Mask()
BIDIRECTIONAL = Mask(causal=False)


def sliding_window(tokens: int) -> Mask:
    """Causal, and no further back than `tokens`, the query's own included."""
    return Mask(sliding_window=tokens)


class Tables(Protocol):
    """What a mask looks up: PersistentBuffers are such."""

    @property
    def doc_ids(self) -> torch.Tensor: ...

    @property
    def query_start_loc(self) -> torch.Tensor: ...

    @property
    def seq_lens(self) -> torch.Tensor: ...

    @property
    def decode_offset(self) -> torch.Tensor: ...

    @property
    def physical_to_logical(self) -> torch.Tensor: ...


def paged_mask_mod(mask: Mask, tables: Tables, limits: Limits) -> MaskMod:
    """The mask in FlexAttention's terms: of a token of the step and a slot of the KV cache.

    A query sees a key if the slot's block is one of its request's pages, the slot is within the
    length, and `mask` allows it. Tokens that fill a captured size see nothing.
    """
    doc_ids, query_start_loc, seq_lens = tables.doc_ids, tables.query_start_loc, tables.seq_lens
    decode_offset, physical_to_logical = tables.decode_offset, tables.physical_to_logical
    page, last_position = limits.block_size, limits.max_model_len - 1
    causal, window, also = mask.causal, mask.sliding_window, mask.logical_mask_mod

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, physical_kv: torch.Tensor
    ) -> torch.Tensor:
        # In 64 bits, since rows of so many blocks lie further apart than 32 can say.
        request = doc_ids[q].to(torch.int64)
        seq_len = seq_lens[request]
        position = q - query_start_loc[request] + decode_offset[request]
        logical_page = physical_to_logical[request, physical_kv // page]
        kv = logical_page * page + physical_kv % page
        # A token that fills a captured size would be one of request 0, behind its last.
        sees = (logical_page >= 0) & (kv < seq_len) & (position < seq_len)
        if causal:
            sees = sees & (kv <= position)
        if window is not None:
            sees = sees & (position - kv < window)
        if window is not None and not causal:
            sees = sees & (kv - position < window)
        if also is not None:
            # It is asked of other requests' keys too, and may look up something by position.
            inside = position.clamp(0, last_position), kv.clamp(0, last_position)
            sees = sees & also(b, h, *inside)
        return sees

    return mask_mod


def check_logical_mask_mod(mask: Mask, device: torch.device) -> None:
    """RuntimeError if `mask.logical_mask_mod` makes the host wait or moves data between devices;
    ValueError if it makes tensors of its own, which a kernel can't, or if what it returns is not a
    bool for each query and key. No mask, no error."""
    if mask.logical_mask_mod is None:
        return
    position = torch.arange(3, dtype=torch.int32, device=device)
    indices = position[:1, None], position[:1, None], position[:2, None], position[None]
    with _InAKernel(device):
        sees = mask.logical_mask_mod(*indices)
    if not isinstance(sees, torch.Tensor) or sees.dtype != torch.bool:
        kind = sees.dtype if isinstance(sees, torch.Tensor) else type(sees).__name__
        raise ValueError(f"logical_mask_mod returned {kind}: return a tensor of torch.bool")
    if not _broadcasts_to(sees.shape, torch.Size([2, 3])):
        raise ValueError(
            f"logical_mask_mod returned {list(sees.shape)} for 2 queries and 3 keys: return one "
            "bool for each query and key, by elementwise operations and look-ups"
        )


class _InAKernel(TorchDispatchMode):
    """Refuses what a kernel can't do: FlexAttention makes the mask a part of its own."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else PyTorch imports its compiler, for a second or more, before the first operator."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _needs_values(func, args):
            raise RuntimeError(
                f"logical_mask_mod makes the host wait ({func}): it can be captured only if it "
                "reads no values on the host, so use torch.where, & and | instead"
            )
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            if tensor.device.type != self.device.type:
                raise RuntimeError(
                    f"logical_mask_mod moves data to {tensor.device} ({func}): keep what it looks "
                    f"up on {self.device}"
                )
            if _makes_memory(func, args, tensor):
                raise ValueError(
                    f"logical_mask_mod makes a tensor of {list(tensor.shape)} ({func}): make it "
                    "once, outside, and look values up by position"
                )
        return result


def _needs_values(func: Any, args: Any) -> bool:
    """Whether an operator's result, or its shape, is known to the host only after a wait."""
    if func is torch.ops.aten.index.Tensor:
        return any(index.dtype in (torch.bool, torch.uint8) for index in _tensors(args[1]))
    return (
        torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
    )


def _makes_memory(func: Any, args: Any, result: torch.Tensor) -> bool:
    """Whether numbers come from the host, or a tensor from nowhere; a single number may."""
    name = func.overloadpacket.__name__
    if name.startswith("lift_"):
        return True
    return result.dim() > 0 and (name.startswith("new_") or not _tensors(args))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _broadcasts_to(shape: torch.Size, whole: torch.Size) -> bool:
    try:
        return torch.broadcast_shapes(shape, whole) == whole
    except RuntimeError:
        return False
