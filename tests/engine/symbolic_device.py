"""An engine whose device holds no numbers: for each cached value it records what it was computed
from.

So everything around the model can be tried thousands of times in a second. What a step reads is
compared with what it should read, not with the tokens that happen to come out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from functools import partial
from unittest import mock

import torch

from solutions.engine import Engine, EngineConfig, Optimizations, Request
from solutions.engine import engine as engine_module
from solutions.engine.memory import offloader as offloader_module
from solutions.engine.memory.offloader import Offloader
from solutions.engine.memory.states import States
from solutions.engine.requests.step_batch import FROM_HOST, StepBatch
from solutions.engine.sampling.sampler import SampledStep
from solutions.engine.speculation.drafted_batch import DraftedBatch
from solutions.engine.speculation.propose import FROM_DEVICE
from solutions.offload import LRUBlockManager, TransferResult
from solutions.pinned_h2d.ranges import Span


def symbolic_engine(config: EngineConfig, optimizations: Optimizations | None = None) -> Engine:
    """Returns an engine with the real loop, scheduler, caches and transfers, but with a symbolic
    model instead of a real one. Call `check_blocks` after a step: it compares the blocks in use
    with those that should be."""
    with mock.patch.multiple(
        engine_module, Model=SymbolicModel, EngineRunner=SymbolicRunner, Offloader=SymbolicOffloader
    ):
        return Engine(config, optimizations)


def next_token(tokens: Sequence[int], spans: Sequence[Span], vocab_size: int) -> int:
    return hash((tuple(tokens), tuple(spans))) % vocab_size


def right_answer(request: Request, vocab_size: int) -> list[int]:
    tokens = list(request.prompt)
    for _ in range(request.sampling.max_tokens):
        tokens.append(next_token(tokens, request.spans, vocab_size))
        if tokens[-1] == request.sampling.stop_token:
            break
    return tokens[len(request.prompt) :]


def visible(position: int, spans: Sequence[Span]) -> range:
    """Returns the positions that the token at `position` sees: all up to its own, and all of its
    image if it is in one."""
    return range(max([position, *(last for first, last in spans if first <= position <= last)]) + 1)


class SymbolicModel:
    """A model without numbers: a block's entries are (token, the tokens that it has seen), and a
    state is the tokens that it has absorbed."""

    def __init__(self, config: EngineConfig, device: torch.device) -> None:
        self.config = config
        size, num_running = config.limits.block_size, config.limits.max_num_seqs
        self.blocks = [[None] * size for _ in range(config.limits.num_gpu_blocks)]
        self.last_tokens: list[int | None] = [None] * num_running
        self.num_known: list[int] = [0] * num_running
        has_states = config.model.num_layers_of("gdn") > 0
        self.states = SymbolicStates(num_running, config.num_states) if has_states else None


class Refused(Exception):
    """An error of the symbolic device: it has no memory for the requested work."""


class SymbolicStates(States):
    refuses = False
    """True if copies of states raise Refused."""

    def __init__(self, num_running: int, num_kept: int) -> None:
        self.num_running, self.kept = num_running, LRUBlockManager(num_kept)
        self.of_slot: list[object] = [None] * (num_running + num_kept)

    def rows(self) -> list[object]:
        return self.of_slot

    def _copy(self, source: int, target: int) -> None:
        if self.refuses:
            raise Refused
        self.of_slot[target] = self.of_slot[source]


class SymbolicRunner:
    """A runner that reads the tokens of a step only from the batch and the caches, as a device
    does, and then checks that they are the right ones."""

    capture_sizes = ()

    def __init__(self, model: SymbolicModel, seams: object) -> None:
        self.model = model

    def run(self, batch: StepBatch, padded_rows: int = 0) -> SampledStep:
        if isinstance(batch, DraftedBatch):
            return self._run_drafted(batch)
        batch.check(self.model.config.limits)
        sampled = []
        for number, row in enumerate(batch.rows):
            part = slice(*batch.query_start_loc[number : number + 2])
            sources = zip(batch.token_ids[part], batch.token_sources[part], strict=True)
            tokens = [
                int(token) if source == FROM_HOST else self.model.last_tokens[source]
                for token, source in sources
            ]
            seen = self._run_row(batch, number, tokens)
            if row.samples:
                sampled.append(next_token(seen, row.request.spans, self._vocab_size))
        for slot, token in zip(batch.sampling_slots, sampled, strict=True):
            self.model.last_tokens[slot] = token
        return SampledStep(batch.sampling_rows, Known(sampled), None, None)

    def _run_drafted(self, batch: DraftedBatch) -> SampledStep:
        """Runs a step with draft tokens, some of which are right, and returns the samples. Checks
        the lengths that the host passes."""
        answers, width = [], int(batch.query_lens[0])
        for number, row in enumerate(batch.rows):
            slot, told, end = row.request.slot, batch.lengths[number], int(batch.ends[number])
            assert told in (FROM_DEVICE, row.end)
            length = self.model.num_known[slot] if told == FROM_DEVICE else int(told)
            assert row.end <= length <= batch.seq_lens[number] - width + 1
            right = _true_tokens(row.request, length + width, self._vocab_size)
            count = min(1 + (7 * length + slot) % width, max(end - length, 0))
            table = [*batch.block_table[number].tolist(), *[0] * width]
            cached = CachedRequest(self.model.blocks, table)
            for position in range(length - 1, length - 1 + width):
                if cached.has_block(position):
                    is_right = position < length - 1 + max(count, 1)
                    seen = (right[position], tuple(right[: position + 1]))
                    cached[position] = seen if is_right else None
            for position in range(length - 1 + max(count, 1)):
                seen = tuple(right[: visible(position, row.request.spans).stop])
                assert cached[position] == (right[position], seen), (number, position)
            if count:
                self.model.last_tokens[slot] = right[length + count - 1]
            self.model.num_known[slot] = length + count
            answers.append([length, count, width - 1, *right[length:]])
        return SampledStep(batch.rows, Known(answers), None, None, width - 1)

    def reset(self) -> None:
        """Does nothing: unlike a real runner's steps, a symbolic step leaves nothing behind to
        reset."""

    def _run_row(self, batch: StepBatch, number: int, tokens: list[int]) -> list[int]:
        """Runs one request of the batch, and returns its tokens. Raises AssertionError if its
        blocks or its state hold anything else."""
        end, spans = int(batch.seq_lens[number]), batch.rows[number].request.spans
        start = end - len(tokens)
        cached = CachedRequest(self.model.blocks, batch.block_table[number].tolist())
        for position, token in enumerate(tokens, start):
            cached[position] = (token, None)
        for position in range(start, end):
            seen = tuple(cached[other][0] for other in visible(position, spans) if other < end)
            cached[position] = (cached[position][0], seen)
        right = _true_tokens(batch.rows[number].request, end, self._vocab_size)
        for position in range(end):
            seen = tuple(right[: visible(position, spans).stop])
            assert cached[position] == (right[position], seen), (number, position)
        if self.model.states:
            slot, of_slot = int(batch.slots[number]), self.model.states.of_slot
            of_slot[slot] = (*(of_slot[slot] if start else ()), *tokens)
            assert of_slot[slot] == tuple(right[:end]), number
        return right[:end]

    @property
    def _vocab_size(self) -> int:
        return self.model.config.model.vocab_size


class CachedRequest:
    """A view of one request's cached tokens by position, found in `blocks` through its block
    table."""

    def __init__(self, blocks: list[list[object]], table: list[int]) -> None:
        self.blocks, self.table, self.size = blocks, table, len(blocks[0])

    def has_block(self, position: int) -> bool:
        return self.table[position // self.size] > 0

    def __getitem__(self, position: int) -> object:
        return self.blocks[self.table[position // self.size]][position % self.size]

    def __setitem__(self, position: int, value: object) -> None:
        self.blocks[self.table[position // self.size]][position % self.size] = value


class Known:
    """A download whose values are known from the start: `read` returns them at once."""

    def __init__(self, values: list) -> None:
        self.values = values

    def read(self) -> torch.Tensor:
        return torch.tensor(self.values, dtype=torch.int64)


class SymbolicOffloader(Offloader):
    def __init__(self, model: SymbolicModel, loading_handler: object) -> None:
        with mock.patch.multiple(
            offloader_module,
            _kv_group=lambda model: _with_host(model.blocks, model.config.num_cpu_blocks),
            _pairs=_with_host,
            SingleDirectionOffloadingHandler=SymbolicTransfers,
        ):
            super().__init__(model, partial(SymbolicTransfers, gpu_to_cpu=False))


class SymbolicTransfers:
    """Transfers that stay in flight until `end` is called or an event is waited for. A copy reads
    its source only at its end, so code that changes the source too early fails."""

    def __init__(self, groups: Sequence[tuple[list, list]], gpu_to_cpu: bool) -> None:
        self.groups, self.gpu_to_cpu = groups, gpu_to_cpu
        self.failing = False
        """True if transfers that begin from now on fail at their end."""
        self.refuses = False
        """True if a transfer that begins from now on raises Refused."""
        self._under_way: deque[tuple] = deque()
        self._finished: list[TransferResult] = []

    def transfer_async(self, job_id: int, gpu: Sequence[list], cpu: Sequence[list]) -> None:
        if self.refuses:
            raise Refused
        self._under_way.append((job_id, gpu, cpu, self.failing))

    def end(self, count: int) -> None:
        for _ in range(min(count, len(self._under_way))):
            job_id, *ids, fails = self._under_way.popleft()
            for group, of_gpu, of_cpu in zip(self.groups, *ids, strict=True):
                (on_gpu, on_cpu) = group
                for gpu_id, cpu_id in zip(of_gpu, of_cpu, strict=True):
                    if fails:
                        continue
                    if self.gpu_to_cpu:
                        on_cpu[cpu_id] = _copied(on_gpu[gpu_id])
                    else:
                        on_gpu[gpu_id] = _copied(on_cpu[cpu_id])
            error = "the link is down" if fails else None
            self._finished.append(TransferResult(job_id, not fails, 0, error))

    def get_finished(self) -> list[TransferResult]:
        finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids: set[int]) -> None:
        last = max(job_ids)
        self.end(sum(job_id <= last for job_id, *_ in self._under_way))


def check_blocks(engine: Engine) -> None:
    """Checks that each block and slot of the engine is free, or held by exactly the requests and
    transfers that should hold it, and that the host's blocks are held by transfers in flight
    only."""
    scheduler, offloader = engine.scheduler, engine.offloader
    requests = [*scheduler.waiting, *scheduler.loading, *scheduler.running]
    holders = Counter(block for request in requests for block in request.blocks)
    if offloader:
        for transfer in offloader._stores.values():
            holders.update(transfer.gpu_blocks)
        loads = Counter(name for each in offloader._loads.values() for name in each.hashes)
        on_host = offloader.blocks._blocks
        assert loads == +Counter({name: block.num_loads for name, block in on_host.items()})
        stores = {name for each in offloader._stores.values() for name in each.hashes}
        assert stores == {name for name, block in on_host.items() if not block.is_ready}
    manager = scheduler.blocks
    assert +manager._holders == holders
    assert sorted([*manager._free, *holders]) == list(range(1, engine.config.limits.num_gpu_blocks))
    slots = [request.slot for request in requests if request.slot is not None]
    every_slot = list(range(engine.config.limits.max_num_seqs))
    assert sorted([*slots, *scheduler._free_slots]) == every_slot
    assert all(not r.blocks and r.slot is None for r in scheduler.waiting)


def _with_host(on_gpu: list[object], num_host: int) -> tuple[list[object], list[object]]:
    return on_gpu, [None] * num_host


def _copied(value: object) -> object:
    return list(value) if isinstance(value, list) else value


def _true_tokens(request: Request, count: int, vocab_size: int) -> list[int]:
    tokens = list(request.prompt)
    while len(tokens) < count:
        tokens.append(next_token(tokens, request.spans, vocab_size))
    return tokens
