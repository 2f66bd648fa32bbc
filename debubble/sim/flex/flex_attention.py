"""FlexAttention on sim: recorded as a GPU's kernels, computed in float32 by groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from weakref import WeakSet

import torch
from torch.nn.attention.flex_attention import BlockMask

from debubble.clock.action import Action, kernel
from debubble.contract.capture_error import CaptureError
from debubble.contract.flex.flex_call import FlexCall
from debubble.contract.flex.mask_kind import kind_of
from debubble.rules.copies import nbytes_of

from ..clock.device import SimDevice
from ..operators.computing import on_sim
from ..operators.execution import Operation, execute
from ..operators.work import HALVES
from ..tensor import SimTensor
from .flex_mask import MaskTrace, trace

PARTS = ("tokens", "sizes", "heads", "blocks", "constants", "inference mode", "mask")
"""The names of what `FlexCall.specialisation` returns."""
HOST_US = 380.0
"""Host time of one call of a compiled function, in microseconds: it checks every argument, and
everything that the mask function closes over. Measured beside an H200: the time per layer of a
piecewise decode step of chapter 04, less its graph, its Triton kernel and its copy."""
NEW_MASK_US = 700.0
"""Extra host time for the first call with a new mask function, in microseconds. Measured beside an
H200: how much longer a decode step of chapter 04 takes with a new mask, less the operators that
create the mask."""
SCORES_AT_ONCE = 1 << 22
"""The most elements of the score matrix that are computed at once."""


class SimFlexAttention:
    """FlexAttention on one simulated device: computes each call, and counts the compilations that a
    GPU would need."""

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
        """Counts a compilation if a GPU's compiler would need a new kernel for this call. The
        tensors that the mask reads from objects count too, not only those that it closes over.

        Raises CaptureError if a compilation is needed during a capture.
        """
        specialisation = call.specialisation(), tuple(map(kind_of, read_by_mask))
        if specialisation in self.compiled:
            return
        if self.device.capturing is not None:
            raise CaptureError(call.would_compile())
        parts = zip(PARTS, map(repr, specialisation[0]), strict=True)
        key = (*parts, ("memory of the mask", repr(specialisation[1])))
        self.device.beside.compiles(self, "flex_attention", key)
        self.compiled.add(specialisation)


class _Kernels:
    """Computes one call of FlexAttention on the CPU data of its tensors, at the call and in each
    replay.

    It keeps no SimTensor, because a graph doesn't keep its inputs alive.
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
        """The kernels of the last run, for the cost model. How many blocks a run reads is known
        only on the device."""

    def __call__(self) -> torch.Tensor:
        if self.device.capturing is None:
            most = self._checked()
            self.actions[:] = self._actions(int(self.kv_num_blocks.sum()))
            with torch.no_grad():
                self._attend(most)
        return self.out

    def _checked(self) -> int:
        """Checks the block mask and returns the largest block count of any group. Raises
        RuntimeError for a block outside the cache or outside `kv_indices`: on a GPU an illegal
        access, or no error at all."""
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
        """Returns bool [groups, most]: True for the columns of `kv_indices` that a group uses."""
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
        """Computes attention for `groups` [count], rows of the block mask numbered across the
        batch, and writes their rows of `out`."""
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
        """Returns the keys or values of the blocks with the numbers `blocks` [groups, most]:
        float32 [groups, kv_heads, slots of the blocks, head size]."""
        by_block = cache.unflatten(1, (-1, self.page))[:, blocks.long()].float()
        return by_block.flatten(2, 3).transpose(0, 1)

    def _seen(self, b: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Returns the mask, bool [groups, heads or 1, rows, slots], for the positions `b`
        [groups, 1], `q` [groups, rows] and `kv` [groups, slots].

        Raises RuntimeError if the mask function reads outside a tensor."""
        h = torch.arange(self.query.shape[1], dtype=torch.int32, device="cpu").view(1, -1, 1, 1)
        try:
            return self.mask.run(b[:, None, :, None], h, q[:, None, :, None], kv[:, None, None, :])
        except IndexError as error:
            raise RuntimeError(
                f"a mask function reads beyond a tensor: {error}; on a GPU this is an illegal "
                "memory access"
            ) from error

    def _actions(self, blocks: int) -> list[Action]:
        """Returns the kernels of a call, for the cost model, if all groups together read `blocks`
        blocks."""
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
    """Returns `tensor` as a SimTensor. `FlexCall.of` has refused all other tensors."""
    assert isinstance(tensor, SimTensor)
    return tensor


def _empty_like(query: torch.Tensor) -> torch.Tensor:
    """Returns an uninitialized dense tensor with the query's shape and dimension order in memory.
    The last dimension is always the innermost."""
    order = [*sorted(range(3), key=query.stride, reverse=True), 3]
    dense = torch.empty([query.shape[d] for d in order], dtype=query.dtype, device="cpu")
    return dense.permute([order.index(d) for d in range(4)])
