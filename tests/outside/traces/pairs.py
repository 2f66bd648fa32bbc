"""Pairs of programs before and after one wait was removed, to judge the prediction of the gain.

The five lessons and the engine, and waits as people have them in their own loops.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from queue import Queue
from threading import Thread

import torch

from debubble.accelerator import Accelerator
from solutions.engine.measure.presets import ServingPreset
from solutions.engine.measure.steps import Decodes
from solutions.engine.measure.variants import Engines
from solutions.flex_graph.measure.decode_step import FlexWorkload, Variants
from solutions.gdn.measure.prefill_step import GDNWorkload
from solutions.gdn.measure.prefill_step import steps as gdn_steps
from solutions.offload.measure.block_loads import FEW
from solutions.offload.measure.block_loads import VARIANTS as HANDLERS
from solutions.offload.serving_loop.config import ServingConfig
from solutions.offload.serving_loop.serving import Server
from solutions.pinned_h2d.model.config import ImageStepConfig
from solutions.pinned_h2d.step import ImageSteps, Variant
from solutions.sync_free.measure.decode_steps import STEPS_IN_A_ROW, VARIANTS
from solutions.sync_free.measure.running import RunningVariant
from solutions.sync_free.model.config import StepConfig
from solutions.sync_free.model.model import ConvModel
from solutions.sync_free.model.workload import Workload

from .programs import WIDTH, blocks

Row = Callable[[], object]
IN_A_ROW = 16


@dataclass(frozen=True)
class Pair:
    """Two functions that each queue a row of `steps` steps, before and after the wait is gone."""

    before: Row
    after: Row
    steps: int = IN_A_ROW


def rows(large: bool) -> int:
    """Returns the rows of a step's input: sim computes each of them."""
    return 4096 if large else 32


def repeated(step: Callable[[], object], times: int = IN_A_ROW) -> Row:
    def row() -> None:
        for _ in range(times):
            step()

    return row


def pinned_h2d(accelerator: Accelerator, large: bool) -> Pair:
    engine = ImageSteps(ImageStepConfig.small(), accelerator.device)
    steps = IN_A_ROW if large else 2

    def row(variant: Variant) -> None:
        engine.use(variant)
        for _ in range(steps):
            engine.decode()

    return Pair(partial(row, "before"), partial(row, "after"), steps)


def sync_free(accelerator: Accelerator, large: bool) -> Pair:
    config = StepConfig.small()
    model = ConvModel(config, accelerator.device)
    scheduled = list(Workload(config).steps(16 * STEPS_IN_A_ROW))
    before, after = (
        RunningVariant(model, VARIANTS[name], scheduled).row(STEPS_IN_A_ROW)
        for name in ("before", "after")
    )
    return Pair(before, after, STEPS_IN_A_ROW)


def gdn(accelerator: Accelerator, large: bool) -> Pair:
    steps = gdn_steps(GDNWorkload.small(), accelerator)

    def row(variant: str) -> None:
        repeated(steps[variant]())()

    return Pair(partial(row, "before"), partial(row, "after"))


def flex_graph(before: str, after: str, accelerator: Accelerator, large: bool) -> Pair:
    workload = FlexWorkload.small() if large else FlexWorkload.narrow()
    variants = Variants(workload, accelerator)

    def row(name: str) -> None:
        variants.ready(name)
        variants.row(name)

    return Pair(partial(row, before), partial(row, after), len(variants.batches))


def offload(accelerator: Accelerator, large: bool) -> Pair:
    config = FEW if large else ServingConfig.tiny()
    server = Server(config, accelerator.device)
    before, after = (HANDLERS[name](server.groups) for name in ("before", "after"))
    steps = config.num_requests
    return Pair(partial(server.serve, before), partial(server.serve, after), steps)


def engine(accelerator: Accelerator, large: bool) -> Pair:
    preset = ServingPreset.hybrid() if large else ServingPreset.hybrid_on_sim()
    engines = Engines(preset.config, accelerator)
    steps = {name: Decodes(engines[name], preset) for name in ("none", "sync_free")}

    def row(name: str) -> None:
        steps[name].ready(IN_A_ROW)
        steps[name].row(IN_A_ROW)

    return Pair(partial(row, "none"), partial(row, "sync_free"))


def loss_item(accelerator: Accelerator, large: bool) -> Pair:
    """A training loop that reads its loss in each step, and one that keeps it on the device."""
    model = blocks(accelerator, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
    x = torch.randn(rows(large), WIDTH, device=accelerator.device)
    total, seen = torch.zeros((), device=accelerator.device), []

    def learn() -> torch.Tensor:
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def before() -> None:
        seen.append(learn().item())

    def after() -> None:
        total.add_(learn())

    return Pair(repeated(before), repeated(after))


def token_to_host(accelerator: Accelerator, large: bool) -> Pair:
    """Sampling that reads each token on the host, and sampling that keeps them on the device."""
    model = blocks(accelerator, 12)
    state = torch.randn(8, WIDTH, device=accelerator.device)
    tokens: list[object] = []

    def sample() -> torch.Tensor:
        with torch.no_grad():
            state.copy_(model(state))
            return state.argmax(-1)

    def before() -> None:
        tokens.append(sample().tolist())

    def after() -> None:
        tokens.append(sample())

    return Pair(repeated(before), repeated(after))


def boolean_mask(accelerator: Accelerator, large: bool) -> Pair:
    """A sum over chosen elements: by indexing with a mask, and by `where`."""
    model = blocks(accelerator, 6)
    x = torch.randn(rows(large), WIDTH, device=accelerator.device)

    def before() -> None:
        with torch.no_grad():
            out = model(x)
            out[out > 0].sum()

    def after() -> None:
        with torch.no_grad():
            out = model(x)
            torch.where(out > 0, out, 0).sum()

    return Pair(repeated(before), repeated(after))


def large_upload(accelerator: Accelerator, large: bool) -> Pair:
    """A batch of 16 MB for each step: from pageable memory, and from pinned memory while the step
    before it runs."""
    model = blocks(accelerator, 6)
    shape = 2 * rows(large), WIDTH
    pageable = torch.randn(shape)
    pinned = torch.randn(shape, pin_memory=accelerator.pin_memory)
    targets = cycle([torch.empty_like(pageable, device=accelerator.device) for _ in range(3)])
    side, arrived = accelerator.stream(), accelerator.event()

    def before() -> None:
        with torch.no_grad():
            model(pageable.to(accelerator.device))

    def after() -> None:
        target = next(targets)
        with side:
            target.copy_(pinned, non_blocking=True)
            arrived.record(side)
        arrived.wait()
        with torch.no_grad():
            model(target)

    return Pair(repeated(before), repeated(after))


def synchronized(accelerator: Accelerator, large: bool) -> Pair:
    """A loop that synchronises after each step, as for a timer, and one that does not."""
    model = blocks(accelerator, 12)
    x = torch.randn(rows(large) // 4, WIDTH, device=accelerator.device)

    def after() -> None:
        with torch.no_grad():
            model(x)

    def before() -> None:
        after()
        accelerator.synchronize()

    return Pair(repeated(before), repeated(after))


def preprocessing(accelerator: Accelerator, large: bool) -> Pair:
    """A batch that takes the host 1.5 ms to prepare: in the loop, and in a thread ahead of it."""
    model = blocks(accelerator, 6)
    x = torch.randn(rows(large), WIDTH, device=accelerator.device)

    def prepare() -> float:
        time.sleep(0.0015)
        return 1.0

    def compute(scale: float) -> None:
        with torch.no_grad():
            model(x * scale)

    def before() -> None:
        for _ in range(IN_A_ROW):
            compute(prepare())

    def after() -> None:
        ready: Queue[float] = Queue(maxsize=4)
        thread = Thread(target=lambda: [ready.put(prepare()) for _ in range(IN_A_ROW)])
        thread.start()
        for _ in range(IN_A_ROW):
            compute(ready.get())
        thread.join()

    return Pair(before, after)


PAIRS: dict[str, Callable[[Accelerator, bool], Pair]] = {
    "pinned_h2d": pinned_h2d,
    "sync_free": sync_free,
    "gdn": gdn,
    "flex_graph": partial(flex_graph, "eager", "full"),
    "flex_graph_metadata": partial(flex_graph, "piecewise", "piecewise_built"),
    "offload": offload,
    "loss_item": loss_item,
    "token_to_host": token_to_host,
    "boolean_mask": boolean_mask,
    "large_upload": large_upload,
    "synchronized": synchronized,
    "preprocessing": preprocessing,
    "engine": engine,
}
