"""Serves requests whose prefixes are in CPU memory: loads run beside steps, as in an engine."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

import torch

from debubble.accelerator import current
from debubble.contract.steps import named_step

from ..handler import SingleDirectionOffloadingHandler
from ..memory.host_memory import pinned_blocks
from ..memory.kv_tensors import KVGroup, KVTensors
from ..memory.lru_blocks import LRUBlockManager, prefix_hashes
from ..transfers import TransferQueue
from .config import ServingConfig
from .model import SlotDecoder

STEPS_IN_FLIGHT = 2
"""Number of steps that the host may be ahead of the device."""


@dataclass
class PrefixRequest:
    index: int
    hashes: list[bytes]
    """Hashes that identify the blocks of the request's prefix."""
    blocks: list[int]
    """GPU blocks of the request, allocated when the load of its prefix begins."""
    steps_left: int


class Server:
    """A server for one decoder with `max_running` slots: keeps all prefixes in CPU memory, and
    loads them to the GPU for the requests that it serves."""

    def __init__(self, config: ServingConfig, device: torch.device) -> None:
        self.config = config
        self.decoder = SlotDecoder(config, device)
        self.decoder.capture()
        self.manager = LRUBlockManager(config.num_prefixes * config.prefix_blocks)
        row = config.page_bytes
        num_cpu_blocks = config.num_prefixes * config.prefix_blocks
        pairs = [
            KVTensors(
                cache.view(config.num_gpu_blocks, -1).view(torch.int8),
                pinned_blocks(num_cpu_blocks, row),
            )
            for cache in self.decoder.caches
        ]
        self.groups = [KVGroup(pairs)]
        self.hashes = [
            prefix_hashes(self._prefix(number), config.block_size)
            for number in range(config.num_prefixes)
        ]
        self._jobs = itertools.count()
        self._under_way: deque[PrefixRequest] = deque()
        self._offload_prefixes()

    def serve(self, load: TransferQueue) -> torch.Tensor:
        """Serves all requests once and returns the tokens that they generate, int64 [num_requests,
        new_tokens] on the device. `load` transfers their prefixes. The host waits for no load while
        there is a step to run. Raises RuntimeError if a load fails."""
        config = self.config
        waiting = deque(range(config.num_requests))
        loading: dict[Hashable, PrefixRequest] = {}
        ready: deque[PrefixRequest] = deque()
        running: dict[int, PrefixRequest] = {}
        free_blocks = self._free_blocks()
        tokens = torch.zeros(
            (config.num_requests, config.new_tokens), dtype=torch.int64, device=self.decoder.device
        )
        pace = _Pace()
        while waiting or loading or ready or running:
            while waiting and len(loading) + len(ready) < config.loads_ahead:
                request = self._request(waiting.popleft(), free_blocks)
                loading[request.index] = request
                self._load(request, load)
            if not (running or ready):
                load.wait({next(iter(loading))})
            for result in load.get_finished():
                request = loading.pop(result.job_id)
                if not result.success:
                    raise RuntimeError(f"request {request.index}: {result.error}")
                self.manager.complete_load(request.hashes)
                ready.append(request)
            for slot in range(config.max_running):
                if ready and slot not in running:
                    running[slot] = request = ready.popleft()
                    self._start(slot, request)
            if not running:
                continue
            with named_step(f"{len(running)} decodes"):
                self.decoder.step()
            pace.keep()
            for slot, request in list(running.items()):
                request.steps_left -= 1
                if not request.steps_left:
                    tokens[request.index] = self.decoder.output[slot]
                    self.decoder.stop(slot)
                    free_blocks += running.pop(slot).blocks
        return tokens

    def load_one(self, load: TransferQueue) -> None:
        """Queues the load of one request's prefix by `load`. The current stream waits for it; the
        host does not."""
        for _ in load.get_finished():
            self.manager.complete_load(self._under_way.popleft().hashes)
        request = self._request(next(self._jobs), self._free_blocks())
        self._load(request, load)
        load.make_stream_wait({request.index}, current().current_stream())
        self._under_way.append(request)

    def _free_blocks(self) -> list[int]:
        """Returns all GPU blocks but block 0, in random order, as after hours of serving."""
        blocks = list(range(1, self.config.num_gpu_blocks))
        random.Random(self.config.seed).shuffle(blocks)
        return blocks

    def _request(self, index: int, free_blocks: list[int]) -> PrefixRequest:
        blocks = [free_blocks.pop() for _ in range(self.config.blocks_per_request)]
        hashes = self.hashes[index % self.config.num_prefixes]
        return PrefixRequest(index, hashes, blocks, self.config.new_tokens)

    def _load(self, request: PrefixRequest, load: TransferQueue) -> None:
        found = self.manager.lookup(request.hashes)
        assert found == len(request.hashes), "all prefixes were offloaded"
        cpu_blocks = self.manager.prepare_load(request.hashes)
        gpu_blocks = request.blocks[: self.config.prefix_blocks]
        load.transfer_async(request.index, [gpu_blocks], [cpu_blocks])

    def _start(self, slot: int, request: PrefixRequest) -> None:
        token = request.index % self.config.vocab_size
        self.decoder.start(slot, request.blocks, self.config.prefix_tokens, token)

    def _prefix(self, number: int) -> list[int]:
        """Returns the token ids of prefix `number`; no two prefixes begin with the same token."""
        vocab_size = self.config.vocab_size
        return [(number + place) % vocab_size for place in range(self.config.prefix_tokens)]

    def _offload_prefixes(self) -> None:
        """Fills the CPU blocks of all prefixes with random keys and values, stored from the GPU,
        instead of running prefills."""
        store = SingleDirectionOffloadingHandler(self.groups, gpu_to_cpu=True)
        gpu_blocks = list(range(1, 1 + self.config.prefix_blocks))
        for number, hashes in enumerate(self.hashes):
            for cache in self.decoder.caches:
                cache.normal_()
            plan = self.manager.prepare_store(hashes)
            assert plan is not None, "there is room for all prefixes"
            store.transfer_async(number, [gpu_blocks], [plan.block_ids])
            store.wait({number})
            self.manager.complete_store(hashes)
        store.get_finished()


class _Pace:
    """A limit on how many steps the host is ahead of the device."""

    def __init__(self) -> None:
        self._events = deque(current().event() for _ in range(STEPS_IN_FLIGHT))

    def keep(self) -> None:
        """Makes the host wait until at most STEPS_IN_FLIGHT steps are in flight. Call it after each
        step."""
        self._events.rotate(-1)
        event = self._events[-1]
        event.synchronize()
        event.record()
