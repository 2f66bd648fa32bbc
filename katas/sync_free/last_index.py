"""A number that need not travel (chapter 02, easy, 10 minutes).

If layers share their keys and values, only the rows that give logits have to be computed in all
layers. A captured graph reads the indices of these rows from a buffer, at a padded size. So the
rest of the buffer must hold valid indices too: the last index, again and again. The function below
works. But `fill_` takes a number, and to get this number the host waits for the device.

Fill the rest of the buffer without reading the last index on the host. Keep refusing the inputs
that the function refuses.

You need to know which indices of tensors are views, and which make a number of them.

Edit this file, then run

    pytest katas/sync_free/test_last_index.py

Stuck?         debubble hint last_index
Start afresh?  debubble reset last_index
"""

from __future__ import annotations

import torch


# Yours to edit, from here on.
def _prepare_kv_sharing_fast_prefill(
    buffer: torch.Tensor, logits_indices: torch.Tensor, num_padded: int
) -> torch.Tensor:
    """Returns [num_padded] int32, a view of `buffer`: logits_indices, then its last index repeated
    (vLLM #41429).

    `buffer` is [max_tokens] int32 on the device, the same in every step. Its whole tail is written,
    so any part of it that a graph reads holds valid indices, and none of an earlier, larger step.
    `logits_indices` is [n] int32 or int64 on the device, and may be a part of `buffer`. Its values
    are not checked.
    """
    check_indices(buffer, logits_indices, num_padded)
    if share_memory(buffer, logits_indices):
        logits_indices = logits_indices.clone()
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    buffer[num_indices:].fill_(logits_indices[-1].item())
    return buffer[:num_padded]


# region Given: what the code above uses. You may change it, and need not.


def check_indices(buffer: torch.Tensor, logits_indices: torch.Tensor, num_padded: int) -> None:
    """Raises ValueError unless `buffer` is [max_tokens] int32, `logits_indices` [n] int32 or int64
    on the same device, and 1 <= n <= num_padded <= max_tokens. Reads no value."""
    num_indices = logits_indices.numel()
    if num_indices < 1:
        raise ValueError(
            f"{num_indices} logits indices: there must be one at least, for the tail repeats the "
            "last of them"
        )
    if buffer.dim() != 1 or buffer.dtype != torch.int32 or not buffer.is_contiguous():
        raise ValueError(
            f"a buffer of {buffer.dtype} {list(buffer.shape)}: make it torch.int32 [max_tokens]"
        )
    if num_indices > len(buffer):
        raise ValueError(f"{num_indices} logits indices: this buffer holds {len(buffer)}")
    if not num_indices <= num_padded <= len(buffer):
        raise ValueError(
            f"{num_indices} logits indices padded to {num_padded}: choose a size between "
            f"{num_indices} and the {len(buffer)} of the buffer"
        )
    if logits_indices.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"logits indices of {logits_indices.dtype}: use int32 or int64")
    if logits_indices.dim() != 1:
        raise ValueError(
            f"logits indices of shape {list(logits_indices.shape)}: make them [{num_indices}]"
        )
    if logits_indices.device != buffer.device:
        raise ValueError(
            f"logits indices on {logits_indices.device}, and the buffer on {buffer.device}: "
            "send them there once, without waiting"
        )


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if a write to one of two tensors may change the other."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


# endregion
