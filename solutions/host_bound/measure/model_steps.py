"""Measures a decode step of Qwen3-0.6B's shape by transformers, eager and in a graph, and how long
compiling takes: `python -m solutions.host_bound.measure.model_steps`."""

from __future__ import annotations

import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import triton
from rich.console import Console

from debubble.accelerator import Accelerator, current
from solutions.measure import benchmark
from solutions.measure.benchmark import StepInARowCost, always, in_a_row, repeat
from solutions.measure.variant_table import VariantTable

from ..kernels import specialised_kernel, store_tokens

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM

EAGER, IN_GRAPH, COMPILED = "eager", "in_graph", "compiled"
COMPILED_IN_GRAPH = "compiled_in_graph"
STEPS_IN_A_ROW = {True: 2, False: 8}
"""How many steps are measured in a row, on sim (True) and on a GPU (False)."""
RUNS = 7
"""The most times that a step, and a row of steps, is measured."""
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""The environment variables of the folders where Triton and torch.compile keep their results."""
KEYS = (17, 16, 1)
"""Numbers of tokens for which Triton compiles three kernels."""


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a model of Qwen3's kind with random weights, and of the batch it decodes."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocab_size: int
    num_requests: int = 8
    cached_tokens: int = 512
    """Tokens of each request in the cache before the steps."""
    dtype: torch.dtype = torch.bfloat16

    @property
    def most_tokens(self) -> int:
        """Tokens of each request that the cache has room for. Steps over the end of the cache
        would fail, so there is room for all that are measured."""
        return self.cached_tokens + 512


QWEN3 = ModelShape(28, 1024, 3072, 16, 8, 128, 151_936)
TINY = ModelShape(2, 64, 96, 4, 2, 16, 128, num_requests=2, cached_tokens=8)


@dataclass
class CompileTimes:
    """Seconds that compiling takes on this host; None on sim, which compiles nothing."""

    triton_s: list[float] | None = None
    """First launches of one small Triton kernel with each of three keys. The first also builds what
    all kernels share."""
    torch_compile_s: float | None = None
    """First call of the step under torch.compile, with empty caches."""
    torch_compile_again_s: float | None = None
    """First call of the same step compiled again, with the caches on the disk."""


COLUMNS = VariantTable[StepInARowCost](
    "ms of a decode step of a model",
    lambda cost: 1 / cost.loop_us,
    {
        "loop": lambda cost: f"{cost.loop_us / 1e3:.2f}",
        "host": lambda cost: f"{cost.host_us / 1e3:.2f}",
        "device": lambda cost: f"{cost.device_us / 1e3:.2f}",
        "kernels": lambda cost: str(cost.counts["kernels"]),
        "graphs": lambda cost: str(cost.counts["graph_launches"]),
    },
)


def main(arguments: list[str] | None = None) -> None:
    parser = benchmark.option_parser("host_bound", __doc__)
    parser.prog = "python -m solutions.host_bound.measure.model_steps"
    report(benchmark.options_of(parser, arguments))


def report(options: Namespace) -> None:
    """Measures, prints the figures, and writes them to `options.output`, if that is given. Without
    transformers it prints that it measures nothing."""
    console, accelerator = Console(), current()
    if find_spec("transformers") is None:
        console.print("transformers is not installed: no model's step is measured")
        return
    is_small = accelerator.modelled or options.quick
    name, shape = ("tiny", TINY) if is_small else ("qwen3_0.6b", QWEN3)
    with empty_caches(), torch.no_grad():
        compiling = CompileTimes()
        if not accelerator.modelled:
            compiling.triton_s = triton_seconds(accelerator)
        for steps in steps_of(shape, accelerator, compiling):
            costs = {name: {"decode": measure(accelerator, steps, min(options.runs, RUNS))}}
            console.print(COLUMNS.of(costs, accelerator))
            console.print(f"seconds to compile: {asdict(compiling)}")
            if options.output:
                presets = benchmark.by_preset({name: shape}, costs)
                write(options.output / "host_bound_model.json", accelerator, presets, compiling)


def write(
    path: Path, accelerator: Accelerator, presets: dict[str, object], compiling: CompileTimes
) -> None:
    """Writes the record of what is measured so far: compiling a model can take minutes, and a run
    that is cut short keeps the steps before that."""
    contents = {"load_ms": benchmark.LOAD_MS, "presets": presets}
    contents |= {"compile": asdict(compiling), "transformers": version("transformers")}
    benchmark.write_record(path, "host_bound_model", accelerator, contents)


def measure(
    accelerator: Accelerator, steps: dict[str, benchmark.Step], runs: int
) -> dict[str, StepInARowCost]:
    """Returns the cost of each step, which take turns, by name."""
    runs = 1 if accelerator.modelled else runs
    ready: benchmark.Variants = {name: always(step) for name, step in steps.items()}
    costs, _ = benchmark.measure_step(accelerator, ready, runs, lambda: None)
    num_steps = STEPS_IN_A_ROW[accelerator.modelled]
    rows = {name: always(partial(repeat, step, num_steps)) for name, step in steps.items()}
    loops = in_a_row(accelerator, rows, num_steps, runs)
    return {
        name: StepInARowCost(**asdict(cost), loop_us=loops[name]) for name, cost in costs.items()
    }


def steps_of(
    shape: ModelShape, accelerator: Accelerator, compiling: CompileTimes
) -> Iterator[dict[str, benchmark.Step]]:
    """Yields the steps to compare by name, all of one model and one cache: first eager and in a
    graph, then on a GPU these two and compiled ones, alone and in a graph. Notes in `compiling` how
    long torch.compile took."""
    eager = decode_step(shape, accelerator)
    eager()
    steps = {EAGER: eager, IN_GRAPH: captured(accelerator, eager)}
    yield steps
    if accelerator.modelled:
        return
    compiling.torch_compile_s = seconds(accelerator, torch.compile(eager))
    torch.compiler.reset()
    compiled = torch.compile(eager)
    compiling.torch_compile_again_s = seconds(accelerator, compiled)
    compiled()
    yield steps | {COMPILED: compiled, COMPILED_IN_GRAPH: captured(accelerator, compiled)}


def decode_step(shape: ModelShape, accelerator: Accelerator) -> Callable[[], torch.Tensor]:
    """Returns a function that queues one decode step of a model with random weights and returns its
    logits [num_requests, 1, vocab_size]. The cache, of a fixed size, has the prompts' tokens."""
    from transformers import StaticCache

    model = model_of(shape, accelerator)
    cache = StaticCache(config=model.config, max_cache_len=shape.most_tokens)
    device, requests = accelerator.device, shape.num_requests
    prompts = torch.ones(requests, shape.cached_tokens, dtype=torch.int64, device=device)
    model(prompts, past_key_values=cache, logits_to_keep=1)
    last = torch.ones(requests, 1, dtype=torch.int64, device=device)
    positions = torch.full_like(last, shape.cached_tokens)

    def step() -> torch.Tensor:
        return model(last, past_key_values=cache, position_ids=positions).logits

    return step


def model_of(shape: ModelShape, accelerator: Accelerator) -> Qwen3ForCausalLM:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        num_hidden_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        head_dim=shape.head_size,
        vocab_size=shape.vocab_size,
        max_position_embeddings=shape.most_tokens,
        tie_word_embeddings=True,
    )
    with accelerator.device:
        model = Qwen3ForCausalLM(config)
    torch.nn.Module.to(model, shape.dtype)  # the model's own `to` has no type for a dtype
    return model.eval()


def captured(accelerator: Accelerator, step: benchmark.Step) -> benchmark.Step:
    """Returns a function that replays `step`, which has run before, as one graph."""
    accelerator.synchronize()
    graph = accelerator.graph()
    with graph.capture():
        step()
    return graph.replay


def triton_seconds(accelerator: Accelerator) -> list[float]:
    """Returns the seconds of a Triton kernel's first launch with each of KEYS."""
    kernel = triton.jit(specialised_kernel.fn)

    def launch(tokens: int) -> None:
        rows = torch.ones(tokens, 16, device=accelerator.device)
        slots = torch.zeros(tokens, dtype=torch.int32, device=accelerator.device)
        store_tokens(rows, slots, torch.zeros_like(rows), kernel)

    return [seconds(accelerator, partial(launch, tokens)) for tokens in KEYS]


def seconds(accelerator: Accelerator, call: Callable[[], object]) -> float:
    """Returns the seconds until the device has run what `call()` queues."""
    accelerator.synchronize()
    started = time.perf_counter()
    call()
    accelerator.synchronize()
    return time.perf_counter() - started


@contextmanager
def empty_caches() -> Iterator[None]:
    """Lets Triton and torch.compile keep their results in empty folders, for the block."""
    before = {name: os.environ.get(name) for name in CACHES}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.update({name: f"{folder}/{name}" for name in CACHES})
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


if __name__ == "__main__":
    main()
