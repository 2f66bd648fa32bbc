"""FlexAttention on sim: counted as the kernels of a GPU, computed in float32 by groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING
from weakref import WeakSet

import torch

from debubble.contract.capture_error import CaptureError
from debubble.contract.flex_call import FlexCall
from debubble.contract.mask_kind import kind_of
from debubble.rules.action import Action, kernel
from debubble.rules.copies import nbytes_of

from ..clock.device import SimDevice
from ..operators.computing import on_sim
from ..operators.execution import Operation, execute
from ..operators.work import HALVES
from ..tensor import SimTensor
from .flex_mask import MaskTrace, trace

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

HOST_US = 380.0
"""Host time of one call of a compiled function: it looks at every argument, and at everything that
the mask function closes over. Measured beside an H200, as what a piecewise decode step of chapter
04 takes for each layer beside its graph, its Triton kernel and its copy."""
NEW_MASK_US = 700.0
"""And so much more for a mask function that it meets for the first time. Measured beside an H200,
as what a decode step of chapter 04 takes longer when its mask is made anew, beyond the operators
that this takes."""
SCORES_AT_ONCE = 1 << 22
"""Elements of a score matrix that are computed in one go."""


class FlexAttention:
    """All calls of one device."""

    def __init__(self, device: SimDevice) -> None:
        self.device = device
        self.compiled: set[Hashable] = set()
        self._masks_met: WeakSet[Callable] = WeakSet()

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        block_mask: BlockMask,
        scale: float | None,
    ) -> torch.Tensor:
        call = FlexCall.of("sim", query, key, value, block_mask, scale)
        mask, read_by_mask = trace(call.mask_mod)
        self._compile(call, read_by_mask)
        work = _Kernels(self.device, call, mask)
        self.device.host_works(HOST_US)
        if call.mask_mod not in self._masks_met:
            self._masks_met.add(call.mask_mod)
            self.device.host_works(NEW_MASK_US)
        operation = Operation(
            work,
            lambda _: work.actions,
            reads=[*map(_on_sim, call.tensors), *read_by_mask],
            makes_memory=True,
            whole=False,
        )
        return on_sim(execute(self.device, operation), self.device)

    def _compile(self, call: FlexCall, read_by_mask: list[SimTensor]) -> None:
        """What a mask finds in objects counts as well, beyond what it closes over."""
        specialisation = call.specialisation(), tuple(map(kind_of, read_by_mask))
        if specialisation in self.compiled:
            return
        if self.device.capturing is not None:
            raise CaptureError(call.would_compile())
        self.compiled.add(specialisation)


class _Kernels:
    """The kernels of one call, on the CPU data of its tensors; also run in replays.

    It keeps no tensor of sim, since a graph doesn't keep its inputs alive.
    """

    def __init__(self, device: SimDevice, call: FlexCall, mask: MaskTrace) -> None:
        self.device, self.mask = device, mask
        query, key, value, counts, blocks = (_on_sim(tensor).data_on_cpu for tensor in call.tensors)
        self.query, self.key, self.value = query, key[0], value[0]
        self.num_groups = call.num_groups
        self.kv_num_blocks = counts[:, 0, : call.num_groups].flatten()
        self.kv_indices = blocks[:, 0, : call.num_groups].flatten(0, 1)
        self.q_block, self.page, self.scale = call.q_block, call.page, call.scale
        self.height = min(call.q_block, call.num_tokens)
        self.out = _empty_like(query)
        self.splits = call.splits
        self.actions = self._actions(0)
        """Of the last run: how much there is to read stands in device memory."""

    def __call__(self) -> torch.Tensor:
        if self.device.capturing is None:
            most = self._checked()
            self.actions[:] = self._actions(int(self.kv_num_blocks.sum()))
            with torch.no_grad():
                self._attend(most)
        return self.out

    def _checked(self) -> int:
        """The largest number of blocks of a group. RuntimeError for one that the kernel would
        look for beyond the memory that there is: on a GPU an illegal access, or nothing at all."""
        counts, columns = self.kv_num_blocks, self.kv_indices.shape[1]
        wrong = ((counts < 0) | (counts >= columns)).nonzero()
        if len(wrong):
            group = int(wrong[0])
            raise RuntimeError(
                f"group {group} reads {int(counts[group])} blocks, and kv_indices has {columns} "
                f"columns: a kernel looks one column ahead, so 0 to {columns - 1} blocks fit"
            )
        most, num_blocks = int(counts.max()), self.key.shape[1] // self.page
        blocks = self.kv_indices[:, :most]
        wrong = (self._used(counts, most) & ((blocks < 0) | (blocks >= num_blocks))).nonzero()
        if len(wrong):
            group, column = wrong[0].tolist()
            raise RuntimeError(
                f"group {group} reads block {int(blocks[group, column])}, from column {column} of "
                f"kv_indices, and the cache has blocks 0 to {num_blocks - 1}: on a GPU this is an "
                "illegal memory access"
            )
        return most

    def _used(self, counts: torch.Tensor, most: int) -> torch.Tensor:
        """[groups, most]: which columns name a block."""
        return torch.arange(most, device="cpu") < counts[:, None]

    def _attend(self, most: int) -> None:
        if most == 0:
            self.out.zero_()
            return
        per_group = self.query.shape[1] * self.height * most * self.page
        at_once = max(1, SCORES_AT_ONCE // per_group)
        for groups in torch.arange(len(self.kv_num_blocks), device="cpu").split(at_once):
            self._attend_groups(groups, most)

    def _attend_groups(self, groups: torch.Tensor, most: int) -> None:
        """Writes `out` of these groups [count], which are numbered through the whole batch."""
        heads, tokens, size = self.query.shape[1:]
        kv_heads, count = self.key.shape[0], len(groups)
        part = (groups // self.num_groups).to(torch.int32)[:, None].expand(-1, self.height)
        rows = (groups % self.num_groups).to(torch.int32)[:, None] * self.q_block
        rows = rows + torch.arange(self.height, dtype=torch.int32, device="cpu")
        exists, rows = rows < tokens, rows % tokens
        used = self._used(self.kv_num_blocks[groups], most)
        blocks = self.kv_indices[groups, :most].where(used, 0)
        used = used.repeat_interleave(self.page, 1)
        query = self.query[part, :, rows].float().transpose(1, 2)
        query = query.reshape(count, kv_heads, -1, size)
        key, value = (
            self._gathered(cache, blocks).masked_fill_(~used[:, None, :, None], 0)
            for cache in (self.key, self.value)
        )
        scores = (query @ key.transpose(2, 3) * self.scale).view(count, heads, self.height, -1)
        kv = (
            blocks[..., None] * self.page + torch.arange(self.page, dtype=torch.int32, device="cpu")
        ).flatten(1)
        seen = self._seen(part[:, :1], rows, kv) & used[:, None, None]
        scores.masked_fill_(~seen, -torch.inf)
        largest = scores.amax(-1, keepdim=True)
        weights = scores.sub_(largest.masked_fill(largest == -torch.inf, 0)).exp_()
        total = weights.sum(-1, keepdim=True)
        out = weights.view(count, kv_heads, -1, kv.shape[1]) @ value
        out = out.view(count, heads, self.height, size) / total.masked_fill(total == 0, 1)
        out = out.transpose(1, 2)[exists]
        self.out[part[exists], :, rows[exists]] = out.to(self.out.dtype)

    def _gathered(self, cache: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
        """[groups, kv_heads, slots of the blocks, head size] float32, of [groups, most] blocks."""
        by_block = cache.unflatten(1, (-1, self.page))[:, blocks.long()].float()
        return by_block.flatten(2, 3).transpose(0, 1)

    def _seen(self, b: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """bool [groups, heads or 1, rows, slots], from [groups, 1], [groups, rows] and
        [groups, slots]."""
        h = torch.arange(self.query.shape[1], dtype=torch.int32, device="cpu").view(1, -1, 1, 1)
        try:
            return self.mask.run(b[:, None, :, None], h, q[:, None, :, None], kv[:, None, None, :])
        except IndexError as error:
            raise RuntimeError(
                f"a mask function reads beyond a tensor: {error}; on a GPU this is an illegal "
                "memory access"
            ) from error

    def _actions(self, blocks: int) -> list[Action]:
        """For so many blocks read by all groups together."""
        heads, tokens, size = self.query.shape[1:]
        products = min(tokens, self.q_block) * blocks * self.page * heads
        slots = blocks * self.page * self.key.shape[0]
        nbytes = 2 * slots * size * self.key.element_size() + 2 * nbytes_of(self.query)
        name = "flex_decoding" if self.splits else "flex_attention"
        halves = self.query.dtype in HALVES
        attend = Action("kernel", name, nbytes, 4.0 * products * size, "triton", halves)
        if not self.splits:
            return [attend]
        combine = ("flex_combine_max", "flex_combine_sum")
        return [attend, *(kernel(name, 2 * nbytes_of(self.query)) for name in combine)]


def _on_sim(tensor: torch.Tensor) -> SimTensor:
    """FlexCall refuses others."""
    assert isinstance(tensor, SimTensor)
    return tensor


def _empty_like(query: torch.Tensor) -> torch.Tensor:
    """Dense memory in the order of the query's dimensions, of which the last stays the last."""
    order = [*sorted(range(3), key=query.stride, reverse=True), 3]
    dense = torch.empty([query.shape[d] for d in order], dtype=query.dtype, device="cpu")
    return dense.permute([order.index(d) for d in range(4)])
