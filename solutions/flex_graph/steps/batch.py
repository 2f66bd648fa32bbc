"""One step's batch as a runner passes it on: on the device, except the numbers that size the
launches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .limits import Limits


@dataclass(frozen=True)
class CommonAttentionMetadata:
    """The R requests of a step, in the order of their tokens, as a runner passes them to the
    builders. Requests without tokens, which pad the batch, come last. Tensors are int32 on the
    device."""

    query_start_loc: torch.Tensor
    """[R + 1]: where each request's tokens start in the step, then where the last request's end."""
    seq_lens: torch.Tensor
    """[R]: length of each request, its tokens computed before and those of this step. 0 for
    padding."""
    block_table: torch.Tensor
    """[R, C]: the blocks that are each request's pages, in order, then garbage."""
    num_actual_tokens: int
    """Number of tokens of the step, those that pad it to a captured size included."""
    max_seq_len: int
    """An upper bound of seq_lens, which no request need reach."""


def check_batch(common: CommonAttentionMetadata, limits: Limits, device: torch.device) -> None:
    """Raises ValueError for a batch beyond the limits, and for tensors of other dtypes or shapes.
    Values on the device are not read, since the host would wait."""
    num_requests = common.seq_lens.shape[:1].numel()
    columns = common.block_table.shape[1:2].numel()
    _check_tensor("query_start_loc", common.query_start_loc, (num_requests + 1,), device)
    _check_tensor("seq_lens", common.seq_lens, (num_requests,), device)
    _check_tensor("block_table", common.block_table, (num_requests, columns), device)
    if common.num_actual_tokens < 1:
        raise ValueError(
            f"{common.num_actual_tokens} tokens: a step has at least one, so skip one without any"
        )
    _check_limit(num_requests, "requests", "max_num_seqs", limits.max_num_seqs)
    _check_limit(
        common.num_actual_tokens, "tokens", "max_num_batched_tokens", limits.max_num_batched_tokens
    )
    _check_limit(common.max_seq_len, "tokens of a request", "max_model_len", limits.max_model_len)
    _check_limit(columns, "pages of a request", "pages_per_seq", limits.pages_per_seq)
    if columns < limits.pages_of(common.max_seq_len):
        raise ValueError(
            f"a block table of {columns} pages of {limits.block_size} tokens for max_seq_len "
            f"{common.max_seq_len}: give it {limits.pages_of(common.max_seq_len)} columns"
        )


def _check_limit(value: int, of_what: str, name: str, limit: int) -> None:
    if value > limit:
        raise ValueError(
            f"{value} {of_what}: {name} is {limit}, and what outlives a step was made for that, so "
            "schedule less, or make the limits larger"
        )


def _check_tensor(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], device: torch.device
) -> None:
    if tensor.shape != shape or tensor.dtype != torch.int32 or tensor.device != device:
        raise ValueError(
            f"{name} is {tensor.dtype} {list(tensor.shape)} on {tensor.device}: make it "
            f"torch.int32 {list(shape)} on {device}"
        )
