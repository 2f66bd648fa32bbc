"""The states of Gated DeltaNet layers: of each running request, and of prefixes."""

from __future__ import annotations

import torch

from solutions.gdn import GDNConfig, GDNState
from solutions.offload import LRUBlockManager


class States:
    """The states of all Gated DeltaNet layers in two tensors, so that two kernels copy a slot.

    Slots 0 to num_running - 1 belong to the requests that run. The `num_kept` slots after them keep
    states of prefixes, each by the hash of the prefix's last block.
    """

    def __init__(
        self, config: GDNConfig, num_layers: int, num_kept: int, device: torch.device
    ) -> None:
        """Allocates the slots, filled with zeros. `config.num_slots` counts all of them: those of
        running requests, and those of prefixes."""
        self.num_running = config.num_slots - num_kept
        slots = (num_layers, config.num_slots)
        inputs = (config.conv_width - 1, config.conv_dim)
        heads = (config.num_v_heads, config.head_v_dim, config.head_k_dim)
        self.conv = torch.zeros((*slots, *inputs), dtype=config.dtype, device=device)
        """[num_layers, num_slots, conv_width - 1, conv_dim]"""
        self.ssm = torch.zeros((*slots, *heads), dtype=torch.float32, device=device)
        """[num_layers, num_slots, num_v_heads, head_v_dim, head_k_dim]"""
        self.layers = [
            GDNState(conv.transpose(1, 2), ssm)
            for conv, ssm in zip(self.conv.unbind(), self.ssm.unbind(), strict=True)
        ]
        self.kept = LRUBlockManager(num_kept)

    def forget(self) -> None:
        """Forgets the states of all prefixes. Call it only while no transfer is in flight."""
        self.kept = LRUBlockManager(self.kept.num_blocks)

    def slot_of(self, kept_id: int) -> int:
        """Returns the slot of a prefix's state, given its number in `kept`."""
        return self.num_running + kept_id

    def keep(self, slot: int, prefix_hash: bytes) -> None:
        """Copies the state in a request's `slot` to a slot for the prefix, if there is room."""
        plan = self.kept.prepare_store([prefix_hash])
        if plan is not None and plan.hashes:
            self._copy(slot, self.slot_of(plan.block_ids[0]))
            self.kept.complete_store(plan.hashes)

    def give_back(self, prefix_hash: bytes, slot: int) -> None:
        """Copies the state that is kept for a prefix to the slot of a request that continues from
        it."""
        (kept_id,) = self.kept.prepare_load([prefix_hash])
        self._copy(self.slot_of(kept_id), slot)
        self.kept.complete_load([prefix_hash])

    def rows(self) -> list[torch.Tensor]:
        """Returns views of the states as bytes, for transfers: for each tensor of each layer int8
        [num_slots, bytes of a slot]."""
        tensors = [*self.conv.unbind(), *self.ssm.unbind()]
        return [tensor.view(len(tensor), -1).view(torch.int8) for tensor in tensors]

    def _copy(self, source: int, target: int) -> None:
        for states in (self.conv, self.ssm):
            states[:, target].copy_(states[:, source])
