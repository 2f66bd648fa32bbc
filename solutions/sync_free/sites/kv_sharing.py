"""The indices of the tokens that a fast prefill computes, in a buffer that graphs read."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays


def _prepare_kv_sharing_fast_prefill(
    buffer: torch.Tensor, logits_indices: torch.Tensor, num_padded: int
) -> torch.Tensor:
    """[num_padded] int32, a view of `buffer`: logits_indices, then its last one again and again
    (vLLM #41429).

    `buffer`: [max_tokens] int32 on the device, the same one in every step. Its whole tail is
    written, so that whatever part of it a graph reads holds valid indices, and none of an earlier,
    larger step. `logits_indices`: [n] int32 or int64 on the device, may be a part of `buffer`;
    their values are not looked at.
    """
    plan = plan_fast_prefill(buffer.numel(), logits_indices.numel(), num_padded)
    return plan.apply({}, buffer, logits_indices)


def plan_fast_prefill(buffer_size: int, num_indices: int, num_padded: int) -> FastPrefillPlan:
    """ValueError for no indices at all, or more than the buffer or the padded size holds."""
    if num_indices < 1:
        raise ValueError(
            f"{num_indices} logits indices: there must be one at least, for the tail repeats the "
            "last of them"
        )
    if num_indices > buffer_size:
        raise ValueError(f"{num_indices} logits indices: this buffer holds {buffer_size}")
    if not num_indices <= num_padded <= buffer_size:
        raise ValueError(
            f"{num_indices} logits indices padded to {num_padded}: choose a size between "
            f"{num_indices} and the {buffer_size} of the buffer"
        )
    return FastPrefillPlan(num_indices, num_padded)


@dataclass(frozen=True)
class FastPrefillPlan:
    """Sizes alone: all that is written is on the device already."""

    num_indices: int
    num_padded: int
    arrays: HostArrays = field(default_factory=dict)

    def apply(
        self, on_device: DeviceArrays, buffer: torch.Tensor, logits_indices: torch.Tensor
    ) -> torch.Tensor:
        """Writes all of `buffer`; returns its first num_padded entries."""
        self._check_tensors(buffer, logits_indices)
        if _same_memory(buffer, logits_indices):
            logits_indices = logits_indices.clone()
        buffer[: self.num_indices] = logits_indices
        # A 0-dim tensor stays where it is; its number would have to come to the host first.
        buffer[self.num_indices :] = logits_indices[-1]
        return buffer[: self.num_padded]

    def _check_tensors(self, buffer: torch.Tensor, logits_indices: torch.Tensor) -> None:
        if buffer.dim() != 1 or buffer.dtype != torch.int32:
            raise ValueError(
                f"a buffer of {buffer.dtype} {list(buffer.shape)}: make it torch.int32 [max_tokens]"
            )
        if logits_indices.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"logits indices of {logits_indices.dtype}: use int32 or int64")
        if logits_indices.shape != (self.num_indices,):
            raise ValueError(
                f"logits indices of shape {list(logits_indices.shape)}: the plan is for "
                f"[{self.num_indices}]"
            )
        if self.num_padded > len(buffer):
            raise ValueError(f"padded to {self.num_padded}: this buffer holds {len(buffer)}")
        if logits_indices.device != buffer.device:
            raise ValueError(
                f"logits indices on {logits_indices.device}, and the buffer on {buffer.device}: "
                "send them there once, without waiting"
            )


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
