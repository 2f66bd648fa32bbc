"""A small step of each system in all its variants: before, after, and in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from debubble.accelerator import Accelerator
from solutions import first_steps, flex_graph, gdn, offload, pinned_h2d, sync_free
from solutions.engine import NAMES, Engine, EngineConfig, Optimizations, SamplingParams
from solutions.first_steps import before as first_steps_before
from solutions.flex_graph.step import VARIANTS as FLEX_VARIANTS
from solutions.gdn.step import VARIANTS as GDN_VARIANTS
from solutions.offload.bench import VARIANTS as LOADING_HANDLERS
from solutions.offload.serving_loop.config import ServingConfig
from solutions.offload.serving_loop.serving import Server
from solutions.sync_free.model.model import ConvModel
from solutions.sync_free.model.separate_sites import SITES
from solutions.sync_free.model.workload import Workload

Steps = Iterator[tuple[str, Callable[[], object]]]
"""The type of a system's steps: pairs of a name and a function to record. Each function is called
before the next pair is made."""


def of_first_steps(accelerator: Accelerator) -> Steps:
    losses = list(torch.arange(3.0).to(accelerator.device))
    batches = [torch.ones(8, 8, pin_memory=accelerator.pin_memory) for _ in range(3)]
    for variant, code in {"before": first_steps_before, "after": first_steps}.items():
        yield f"mean_loss, {variant}", partial(code.mean_loss, losses)
        yield f"upload_tokens, {variant}", partial(code.upload_tokens, [1, 2, 3])
        yield f"run_batches, {variant}", partial(code.run_batches, batches, torch.relu)


def of_pinned_h2d(accelerator: Accelerator) -> Steps:
    config = replace(pinned_h2d.StepConfig.small(), num_layers=2, num_requests=2)
    engine = pinned_h2d.Engine(config, accelerator.device)
    for variant in ("before", "after"):
        engine.use(variant)
        yield f"prefill, {variant}", engine.prefill
        yield f"decode, {variant}", engine.decode


def of_sync_free(accelerator: Accelerator) -> Steps:
    config = sync_free.StepConfig.small()
    model = ConvModel(config, accelerator.device)
    prompts, first, second = Workload(config).steps(3)
    for variant, sites in {"before": (), "separate": SITES, "packed": None}.items():
        step = sync_free.DecodeStep(model, sites)
        yield f"prompts, {variant}", partial(step.run, prompts)
        yield f"first decode, {variant}", partial(step.run, first)
        yield f"second decode, {variant}", partial(step.run, second)


def of_gdn(accelerator: Accelerator) -> Steps:
    step = gdn.GDNStep(replace(gdn.GDNConfig.small(), num_layers=2), accelerator.device)
    prompts = step.schedule((9, 5, 3))
    for variant in GDN_VARIANTS:
        step.use(variant)
        yield f"prefill, {variant}", partial(step.run, prompts)
    # Only prompts have chunks, so a decode is the same in all variants.
    yield "decode", partial(step.run, step.schedule((1, 1, 1), computed=(9, 5, 3)))


def of_flex_graph(accelerator: Accelerator) -> Steps:
    limits = flex_graph.Limits(
        max_num_seqs=2, max_num_batched_tokens=32, max_model_len=32, num_gpu_blocks=16
    )
    config = flex_graph.FlexConfig.tiny()
    step = flex_graph.FlexStep(config, limits, accelerator.device, capture_sizes=(2,))
    requests = flex_graph.Requests(limits)
    prompts = requests.batch([range(5), range(12)])
    decodes = requests.batch([range(5, 6), range(12, 13)])
    for variant in FLEX_VARIANTS:
        step.use(variant)
        yield f"prefill, {variant}", partial(step.run, prompts)
        yield f"decode, {variant}", partial(step.run, decodes)


def of_offload(accelerator: Accelerator) -> Steps:
    server = Server(ServingConfig.tiny(), accelerator.device)
    by_kernel = partial(offload.launch_swap, accelerator)
    handlers = LOADING_HANDLERS | {
        "kernel": partial(
            offload.SingleDirectionOffloadingHandler, gpu_to_cpu=False, swap=by_kernel
        )
    }
    for variant, handler in handlers.items():
        load = handler(server.groups)
        yield f"load, {variant}", partial(server.load_one, load)
        yield f"requests, {variant}", partial(server.serve, handler(server.groups))


def of_engine(accelerator: Accelerator) -> Steps:
    config, model = replace(EngineConfig.tiny(), capture_sizes=(2,)), None
    tokens = SamplingParams(max_tokens=2)
    switched_on = {"none": (), **{name: (name,) for name in NAMES}, "all": NAMES}
    for variant, names in switched_on.items():
        engine = Engine(config, Optimizations.only(names), model=model)
        model = engine.model
        yield variant, partial(engine.generate, [[1, 2, 3], [4, 5, 6, 7]], tokens)


STEPS: dict[str, Callable[[Accelerator], Steps]] = {
    "first_steps": of_first_steps,
    "pinned_h2d": of_pinned_h2d,
    "sync_free": of_sync_free,
    "gdn": of_gdn,
    "flex_graph": of_flex_graph,
    "offload": of_offload,
    "engine": of_engine,
}
