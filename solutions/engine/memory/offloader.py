"""Prefixes in host memory: stored when they are computed, loaded when a request needs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import torch

from solutions.offload import (
    KVGroup,
    KVTensors,
    LRUBlockManager,
    SingleDirectionOffloadingHandler,
    pinned_blocks,
)
from solutions.offload.memory.lru_blocks import without_transfers

from ..model.model import Model
from ..requests.request import Request

if TYPE_CHECKING:
    from solutions.offload import TransferResult
    from solutions.offload.memory.blocks import Blocks


@dataclass(frozen=True)
class PrefixTransfer:
    """A copy of a prefix between the device and host memory: of its blocks and, for models with
    states, of the state after them."""

    job_id: int
    hashes: Sequence[Hashable]
    """The hashes of the blocks, in order."""
    gpu_blocks: list[int]
    """The device's blocks, in the same order."""
    state_hash: bytes | None
    """The hash of the last block, if the state after it is copied too."""


@dataclass(frozen=True)
class PrefixLoad(PrefixTransfer):
    """A copy of a prefix from host memory to a request's own blocks."""

    request: Request
    """The request that holds the blocks."""


AnyTransfer = TypeVar("AnyTransfer", bound=PrefixTransfer)


class Finished(NamedTuple, Generic[AnyTransfer]):
    """A transfer that has ended, with success or with an error."""

    transfer: AnyTransfer
    error: str | None
    """The reason why it failed, or None."""


class TransferHandler(Protocol):
    """A queue of transfers in one direction, which reports those that have ended."""

    def transfer_async(
        self, job_id: Hashable, gpu_blocks: Sequence[Blocks], cpu_blocks: Sequence[Blocks]
    ) -> None: ...

    def get_finished(self) -> list[TransferResult]: ...

    def wait(self, job_ids: Iterable[Hashable]) -> None: ...


LoadingHandler = Callable[[Sequence[KVGroup]], TransferHandler]
"""A function that makes the TransferHandler for loads from host memory, given the tensors of blocks
and of states."""


class Offloader:
    """A copier of prefixes to host memory and back: KV blocks, and states for models that have
    them. The blocks of a model without attention have no bytes: they only say how far a prefix
    goes, and its states alone are copied. Transfers run beside compute, and the step doesn't wait
    for them."""

    def __init__(self, model: Model, loading_handler: LoadingHandler) -> None:
        config = model.config
        self.states = model.states
        self.blocks = LRUBlockManager(config.num_cpu_blocks)
        self.kept = LRUBlockManager(config.num_cpu_states)
        """A manager of the prefix states in host memory; unused if the model has no states."""
        groups = []
        self._has_attention = config.model.num_layers_of("gdn") < config.model.num_layers
        if self._has_attention:
            groups.append(_kv_group(model))
        if self.states:
            groups.append(_pairs(self.states.rows(), config.num_cpu_states))
        self.load: TransferHandler = loading_handler(groups)
        self.store: TransferHandler = SingleDirectionOffloadingHandler(groups, gpu_to_cpu=True)
        self._ids = itertools.count()
        self._loads: dict[Hashable, PrefixLoad] = {}
        self._stores: dict[Hashable, PrefixTransfer] = {}

    @property
    def loads_under_way(self) -> int:
        """Number of loads that have begun and that `finished_loads` has not reported yet."""
        return len(self._loads)

    @property
    def is_busy(self) -> bool:
        """True while a load or a store is in flight, or not reported yet."""
        return bool(self._loads or self._stores)

    def num_ready(self, hashes: Sequence[bytes]) -> int:
        """Returns how many of the blocks with these hashes, from the first on, host memory can
        load."""
        return self.blocks.lookup(hashes)

    def has_state(self, prefix_hash: bytes) -> bool:
        """Returns True if the state after this block can be loaded."""
        return self.kept.lookup([prefix_hash]) == 1

    def begin_load(
        self,
        request: Request,
        slot: int,
        hashes: list[bytes],
        gpu_blocks: list[int],
        state_hash: bytes | None,
    ) -> None:
        """Loads the blocks with these hashes into `gpu_blocks`, which the request holds. Loads the
        state of `state_hash`, unless that is None, into its `slot`."""
        transfer = PrefixLoad(next(self._ids), hashes, gpu_blocks, state_hash, request)
        cpu_blocks = self.blocks.prepare_load(hashes)
        gpu_states: list[int] = []
        cpu_states: list[int] = []
        if state_hash is not None:
            gpu_states, cpu_states = [slot], self.kept.prepare_load([state_hash])
        self._loads[transfer.job_id] = transfer
        self._transfer(self.load, transfer, cpu_blocks, gpu_states, cpu_states)

    def begin_store(
        self, hashes: Sequence[bytes], gpu_blocks: Sequence[int], state_hash: bytes | None
    ) -> PrefixTransfer | None:
        """Stores the blocks that host memory doesn't have yet, and the state kept for `state_hash`.
        Returns None if host memory has all of them, or no room now. The caller holds the blocks of
        the returned transfer until it has finished."""
        plan = self.blocks.prepare_store(hashes)
        if plan is None:
            return None
        block_of: dict[Hashable, int] = dict(zip(hashes, gpu_blocks, strict=True))
        stored = [block_of[block_hash] for block_hash in plan.hashes]
        gpu_states, cpu_states = self._plan_state(state_hash)
        if not stored and not cpu_states:
            return None
        transfer = PrefixTransfer(
            next(self._ids), plan.hashes, stored, state_hash if cpu_states else None
        )
        self._stores[transfer.job_id] = transfer
        self._transfer(self.store, transfer, plan.block_ids, gpu_states, cpu_states)
        return transfer

    def finished_loads(self) -> list[Finished[PrefixLoad]]:
        """Returns the loads that have ended since the last call."""
        done = []
        for result in self.load.get_finished():
            transfer = self._loads.pop(result.job_id)
            self._end_load(transfer)
            done.append(Finished(transfer, result.error))
        return done

    def finished_stores(self) -> list[Finished[PrefixTransfer]]:
        """Returns the stores that have ended since the last call."""
        done = []
        for result in self.store.get_finished():
            transfer = self._stores.pop(result.job_id)
            self._end_store(transfer, result.success)
            done.append(Finished(transfer, result.error))
        return done

    def wait_for_one(self) -> None:
        """Blocks the host until the oldest load is done or, without any load, the oldest store."""
        for handler, transfers in ((self.load, self._loads), (self.store, self._stores)):
            if transfers:
                handler.wait({next(iter(transfers))})
                return

    def end_all(self) -> None:
        """Waits for all transfers in flight, and counts them as failed. Completed entries in host
        memory stay, even if a change to them stopped halfway."""
        for handler, transfers in ((self.load, self._loads), (self.store, self._stores)):
            if transfers:
                handler.wait(set(transfers))
            handler.get_finished()
            transfers.clear()
        self.blocks, self.kept = without_transfers(self.blocks), without_transfers(self.kept)

    def _end_load(self, transfer: PrefixTransfer) -> None:
        self.blocks.complete_load(transfer.hashes)
        if transfer.state_hash is not None:
            self.kept.complete_load([transfer.state_hash])

    def _end_store(self, transfer: PrefixTransfer, success: bool) -> None:
        self.blocks.complete_store(transfer.hashes, success)
        if self.states is not None and transfer.state_hash is not None:
            self.kept.complete_store([transfer.state_hash], success)
            self.states.kept.complete_load([transfer.state_hash])

    def _plan_state(self, state_hash: bytes | None) -> tuple[list[int], list[int]]:
        """Returns two lists: the slot that holds the state, which is locked until it is stored, and
        the row in host memory for it. Both are empty if there is no state to store, or no room."""
        if self.states is None or state_hash is None:
            return [], []
        if self.states.kept.lookup([state_hash]) == 0:
            return [], []
        plan = self.kept.prepare_store([state_hash])
        if plan is None or not plan.hashes:
            return [], []
        (kept_id,) = self.states.kept.prepare_load([state_hash])
        return [self.states.slot_of(kept_id)], plan.block_ids

    def _transfer(
        self,
        handler: TransferHandler,
        transfer: PrefixTransfer,
        cpu_blocks: list[int],
        gpu_states: list[int],
        cpu_states: list[int],
    ) -> None:
        gpu, cpu = [], []
        if self._has_attention:
            gpu, cpu = [transfer.gpu_blocks], [cpu_blocks]
        if self.states:
            gpu, cpu = [*gpu, gpu_states], [*cpu, cpu_states]
        handler.transfer_async(transfer.job_id, gpu, cpu)


def _kv_group(model: Model) -> KVGroup:
    """Returns keys and values of all attention layers, paired with pinned memory."""
    caches = [layer.cache for layer in model.layers.values() if layer.kind != "gdn"]
    tensors = [tensor for cache in caches for tensor in (cache.key, cache.value)]
    rows = [tensor.view(len(tensor), -1).view(torch.int8) for tensor in tensors]
    return _pairs(rows, model.config.num_cpu_blocks)


def _pairs(rows: Sequence[torch.Tensor], num_cpu_rows: int) -> KVGroup:
    return KVGroup([KVTensors(row, pinned_blocks(num_cpu_rows, row.shape[1])) for row in rows])
