"""Decides which requests run in each step: continuous batching with chunked prefills."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from solutions.offload.memory.lru_blocks import without_transfers

from .memory.block_manager import BlockManager
from .memory.offloader import Offloader
from .memory.prefix_cache import Prefix, PrefixCache
from .memory.states import States
from .model.config import EngineConfig
from .requests.request import Request, Status
from .requests.slot_tables import SlotTables
from .requests.step_batch import ScheduledRequest, are_decodes


class Scheduler:
    """A scheduler of steps. Running requests go first, in the order in which they began; waiting
    requests get the rest of a step. If blocks run out, the request that began last is preempted: it
    releases its blocks and restarts later."""

    def __init__(
        self, config: EngineConfig, states: States | None, offloader: Offloader | None
    ) -> None:
        self.config, self.limits = config, config.limits
        self.states, self.offloader = states, offloader
        self.blocks = BlockManager(config.limits.num_gpu_blocks)
        self.prefixes = PrefixCache(self.blocks, states, offloader)
        self.tables = SlotTables(config.limits)
        self.waiting: deque[Request] = deque()
        self.loading: list[Request] = []
        self.running: list[Request] = []
        self.num_preemptions = 0
        self._free_slots = list(reversed(range(config.limits.max_num_seqs)))
        self._without_host: set[Request] = set()
        """Requests whose load has failed: they compute what they could have loaded."""

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def schedule(self, may_wait: bool = False) -> list[ScheduledRequest]:
        """Returns the next step: requests and their tokens; empty if no request can go on. If
        requests lack only blocks held by transfers, or a prefix in flight, and it `may_wait`, it
        waits for transfers until there is a step, or no transfer is left."""
        self._end_transfers()
        step = self._next_step()
        while may_wait and not step and self._wait_for_transfer():
            step = self._next_step()
        return step

    def _next_step(self) -> list[ScheduledRequest]:
        step: list[ScheduledRequest] = []
        unsure: list[Request] = []
        budget, blocks_ran_out = self.limits.max_num_batched_tokens, False
        for request in list(self.running):
            if request.status is not Status.RUNNING or request.must_wait:
                continue
            end = self._end_of_part(request, request.num_computed, budget)
            missing = self._num_missing(request, end)
            while missing and missing > self.blocks.num_free:
                blocks_ran_out = True
                newest = self.running[-1]
                if newest is request:
                    break
                self._preempt(newest)
            else:
                if missing:
                    self._add_blocks(request, missing)
                if request.num_unsure:
                    unsure.append(request)
                    budget -= 1
                else:
                    budget -= self._advance(request, end, step)
        # Blocks that a preemption frees are for the running requests that lack them. So nothing is
        # admitted: neither a request that was just preempted, nor one that would be preempted next.
        while budget > 0 and self.waiting and not blocks_ran_out:
            request = self.waiting[0]
            if not self._admit(request, budget):
                break
            self.waiting.popleft()
            if request.status is Status.RUNNING:
                end = self._end_of_part(request, request.num_computed, budget)
                self._add_blocks(request, self._num_missing(request, end))
                budget -= self._advance(request, end, step)
        # The host lays out a step with a prompt, so it must know the position of each token.
        if unsure and are_decodes(step):
            for request in unsure:
                self._advance(request, request.num_tokens, step)
        return step

    def queued(self, step: Sequence[ScheduledRequest]) -> None:
        """Registers what a step computes. Call it once the step is in the device's queue: from then
        on other requests can find its blocks and states."""
        num_drafts, block_size = self.config.num_drafts, self.limits.block_size
        has_drafts = num_drafts and are_decodes(step)
        for request, start, end, _ in step:
            if has_drafts and request.sampling.can_be_drafted:
                request.num_unsure += num_drafts
            num_blocks = end // block_size
            if num_blocks > request.num_named:
                self._name_blocks(request, end)
            # A prompt's last chunk may be one token long too: only steps of the answer are skipped.
            extends_answer = end - start == 1 and start >= len(request.prompt)
            if extends_answer or not num_blocks:
                continue
            is_prefix = not end % block_size and num_blocks <= len(request.hashes)
            state_hash = None
            if self.states is not None and is_prefix:
                assert request.slot is not None, "it runs"
                state_hash = request.hashes[num_blocks - 1]
                self.states.keep(request.slot, state_hash)
            self._store(request, num_blocks, state_hash)

    def reset(self, requests: Sequence[Request]) -> None:
        """Resets the scheduler after an interrupted change, with the device idle: these requests
        wait and hold nothing. Prefixes on the device and in host memory stay."""
        if self.offloader is not None:
            self.offloader.end_all()
        if self.states is not None:
            self.states.kept = without_transfers(self.states.kept)
        self.blocks.release_all()
        self._free_slots = list(reversed(range(self.limits.max_num_seqs)))
        self._without_host.intersection_update(requests)
        for request in requests:
            request.reset()
        self.waiting, self.loading, self.running = deque(requests), [], []

    def finish(self, request: Request) -> None:
        """Releases all that the request holds; blocks that a load writes to, once it has ended."""
        if request.status is Status.WAITING:
            self.waiting.remove(request)
        if request.status is Status.RUNNING:
            self.running.remove(request)
        if request.status is not Status.LOADING:
            self._release(request, Status.FINISHED)
        self._without_host.discard(request)

    def forget_prefixes(self) -> None:
        """Forgets all prefixes on the device. Call it while no requests are served."""
        self.drain()
        self.blocks.forget_free()
        if self.states is not None:
            self.states.forget()

    def drain(self) -> None:
        """Waits for all transfers, so that later requests find every prefix that was computed."""
        while self._wait_for_transfer():
            pass

    def _wait_for_transfer(self) -> bool:
        """Waits for one transfer, and ends it. Returns False if none is in flight."""
        if self.offloader is None or not self.offloader.is_busy:
            return False
        self.offloader.wait_for_one()
        self._end_transfers()
        return True

    def _end_transfers(self) -> None:
        """Releases the blocks whose copies have arrived in host memory. Runs requests whose prefix
        arrived on the device; those whose load failed wait again."""
        if self.offloader is None:
            return
        for finished in self.offloader.finished_stores():
            self.blocks.release(finished.transfer.gpu_blocks)
        for load, error in self.offloader.finished_loads():
            request = load.request
            self.loading.remove(request)
            if request.finish_reason is not None:
                self._release(request, Status.FINISHED)
            elif error is not None:
                self._release(request, Status.WAITING)
                request.notes.append(f"its prefix was computed, since loading it failed: {error}")
                self._without_host.add(request)
                self.waiting.appendleft(request)
            else:
                self._name_blocks(request, request.num_computed)
                self._run(request)

    def _end_of_part(self, request: Request, start: int, budget: int) -> int:
        """Returns the position up to which a step of at most `budget` tokens can take the request;
        `start` if the step can't take it any further.

        No chunk ends within an image, whose tokens attend to one another both ways. In models with
        states, a prefill stops after its last full block: only there a prefix's state can be found.
        """
        num_tokens = request.num_tokens
        if start + 1 == num_tokens and budget > 0:
            return num_tokens
        end = min(num_tokens, start + budget)
        if self.states is not None and end - start > 1:
            size = self.limits.block_size
            full = (end - (end == num_tokens)) // size * size
            if full > start and not request.cuts_an_image(full):
                return full
        while end < num_tokens and request.cuts_an_image(end):
            end = request.image_around(end)[0]
        return end

    def _num_missing(self, request: Request, end: int) -> int:
        """Returns how many blocks the request lacks for `end` tokens and the drafts after them."""
        reach = self._reach(request, end) if self.config.num_drafts else end
        lacked = reach - len(request.blocks) * self.limits.block_size
        return self.limits.pages_of(lacked) if lacked > 0 else 0

    def _reach(self, request: Request, end: int) -> int:
        """Returns how many tokens, drafts included, the cache may hold after a step to `end`."""
        if end < request.num_tokens or not self.config.num_drafts:
            return end
        return min(end + request.num_unsure + self.config.num_drafts, request.most_tokens)

    def _advance(self, request: Request, end: int, step: list[ScheduledRequest]) -> int:
        """Adds tokens up to `end`, whose blocks it holds, and returns how many it added."""
        start = request.num_computed
        if end <= start:
            return 0
        request.num_computed = end
        samples = end == request.num_tokens
        request.num_sampled += samples
        step.append(ScheduledRequest(request, start, end, samples))
        return end - start

    def _add_blocks(self, request: Request, count: int) -> None:
        self.tables.add_blocks(request, self.blocks.allocate(count))

    def _preempt(self, request: Request) -> None:
        """Releases all that the request holds, and puts it first in the waiting queue."""
        self.running.remove(request)
        self._release(request, Status.WAITING)
        self.waiting.appendleft(request)
        self.num_preemptions += 1

    def _release(self, request: Request, status: Status) -> None:
        self.blocks.release(request.blocks)
        if request.slot is not None:
            self._free_slots.append(request.slot)
        request.blocks, request.slot = [], None
        request.num_computed = request.num_named = 0
        request.status = status

    def _admit(self, request: Request, budget: int) -> bool:
        """Lets a waiting request run or load its prefix. Returns False if there is no room."""
        # A preempted request is admitted only once its last token has reached the host.
        if not self._free_slots or request.in_flight:
            return False
        prefix = self.prefixes.find(request, use_host=request not in self._without_host)
        if self.offloader is not None and prefix.needs_load:
            return self._admit_to_load(request, prefix, self.offloader)
        start = prefix.num_blocks * self.limits.block_size
        end = self._end_of_part(request, start, budget)
        num_blocks = self.limits.pages_of(self._reach(request, end))
        if end <= start or not self._has_room(prefix, num_blocks):
            return False
        self._begin(request, prefix)
        self._run(request)
        return True

    def _admit_to_load(self, request: Request, prefix: Prefix, offloader: Offloader) -> bool:
        if offloader.loads_under_way >= self.config.loads_ahead:
            return False
        if not self._has_room(prefix, prefix.num_blocks):
            return False
        state_to_load = prefix.state_hash if prefix.loads_state else None
        slot = self._begin(request, prefix)
        new_blocks = self.blocks.allocate(len(prefix.hashes_to_load))
        self.tables.add_blocks(request, new_blocks)
        offloader.begin_load(request, slot, prefix.hashes_to_load, new_blocks, state_to_load)
        request.status = Status.LOADING
        self.loading.append(request)
        return True

    def _has_room(self, prefix: Prefix, num_blocks: int) -> bool:
        """Returns True if the prefix's own blocks and the free ones suffice for `num_blocks`."""
        found = prefix.gpu_blocks
        free = self.blocks.num_free - self.blocks.num_to_take(found)
        return num_blocks - len(found) <= free

    def _begin(self, request: Request, prefix: Prefix) -> int:
        """Returns a free slot for the request; gives it its prefix's blocks on the device."""
        self.blocks.hold(prefix.gpu_blocks)
        request.blocks = list(prefix.gpu_blocks)
        request.slot = slot = self._free_slots.pop()
        self.tables.begin(request)
        request.num_computed = prefix.num_blocks * self.limits.block_size
        request.num_cached = request.num_computed
        if self.states is not None and prefix.state_hash is not None and not prefix.loads_state:
            self.states.give_back(prefix.state_hash, slot)
        return slot

    def _run(self, request: Request) -> None:
        request.status = Status.RUNNING
        self.running.append(request)

    def _name_blocks(self, request: Request, num_tokens: int) -> None:
        """Registers the full blocks of the first `num_tokens` tokens for other requests."""
        num_full = min(num_tokens // self.limits.block_size, len(request.hashes))
        new = slice(request.num_named, num_full)
        for block, block_hash in zip(request.blocks[new], request.hashes[new], strict=True):
            self.blocks.name(block, block_hash)
        request.num_named = num_full

    def _store(self, request: Request, num_blocks: int, state_hash: bytes | None) -> None:
        """Begins to copy the state and those of the first blocks that host memory lacks."""
        if self.offloader is None:
            return
        hashes = request.hashes[:num_blocks]
        transfer = self.offloader.begin_store(hashes, request.blocks[: len(hashes)], state_hash)
        if transfer is not None:
            self.blocks.hold(transfer.gpu_blocks)
