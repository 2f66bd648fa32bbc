"""Finds the beginning of a request: in blocks on the device, in host memory, or nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from ..requests.request import Request
from .block_manager import BlockManager
from .offloader import Offloader
from .states import States


@dataclass(frozen=True)
class Prefix:
    """The beginning of a request that need not be computed: whole blocks of its tokens."""

    gpu_blocks: list[int]
    """The blocks of the prefix that the device has, which come first. The request does not hold
    them yet."""
    hashes_to_load: list[bytes]
    """The hashes of the other blocks of the prefix, which host memory has."""
    state_hash: bytes | None = None
    """The hash by which the state after the last block is found, for models that have states."""
    loads_state: bool = False
    """True if the state after the last block is in host memory alone."""

    @property
    def num_blocks(self) -> int:
        return len(self.gpu_blocks) + len(self.hashes_to_load)

    @property
    def needs_load(self) -> bool:
        """True if any block or state has to come from host memory."""
        return bool(self.hashes_to_load) or self.loads_state


class PrefixCache:
    """A lookup of prefixes on the device and in host memory, which changes nothing there."""

    def __init__(
        self, blocks: BlockManager, states: States | None, offloader: Offloader | None
    ) -> None:
        self.blocks, self.states, self.offloader = blocks, states, offloader

    def find(self, request: Request, use_host: bool = True) -> Prefix:
        """Returns the longest prefix of the request that the device has or, if `use_host`, host
        memory has. It never includes the last token, which has to be computed. For a model with
        states it ends at a block whose state is cached too."""
        hashes = request.hashes[: (request.num_tokens - 1) // request.block_size]
        gpu_blocks = self.blocks.lookup(hashes)
        offloader = self.offloader if use_host else None
        num_ready = offloader.num_ready(hashes[len(gpu_blocks) :]) if offloader else 0
        found = hashes[: len(gpu_blocks) + num_ready]
        if self.states is None:
            return Prefix(gpu_blocks, found[len(gpu_blocks) :])
        while found:
            on_device = self.states.kept.lookup(found[-1:]) == 1
            if on_device or (offloader and offloader.has_state(found[-1])):
                gpu_blocks = gpu_blocks[: len(found)]
                to_load = found[len(gpu_blocks) :]
                return Prefix(gpu_blocks, to_load, found[-1], loads_state=not on_device)
            found = found[:-1]
        return Prefix([], [])
