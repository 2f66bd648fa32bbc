"""A small inference engine in which each of the five optimisations can be switched on and off.

engine is what a user calls; optimizations and config say what it is. A request goes from request
through scheduler (with block_manager, block_hashes, prefix_cache, and offloader for host memory)
into a step_batch; model_runner uploads it (step_inputs). backends make the metadata of each kind of
layer from a step_view; model computes (layers, states), and a decode replays a captured_step;
sampler chooses tokens. seams says what each optimisation changes. data_parallel lets several ranks
step together. reference is the same model without any cache, to compare with.

workload makes requests; moment is what chapter 06 looks at, with dashboard and recorded. bench
measures, with variants, presets, steps, latency, throughput and shared_prefixes.
sync_free_step is the solution of the capstone kata, five_faults the code that it begins with, and
small_model what both compute: these three stand by themselves.
"""

# First, since it settles whether Triton compiles or interprets: it must know before its import.
from debubble.contract.triton_mode import missing_triton

try:
    from .engine import Engine
    from .model.config import EngineConfig, ModelConfig
    from .model.model import Model
    from .model.reference import Reference
    from .optimizations import NAMES, Optimizations
    from .requests.request import RequestOutput, SamplingParams
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

__all__ = [
    "NAMES",
    "Engine",
    "EngineConfig",
    "Model",
    "ModelConfig",
    "Optimizations",
    "Reference",
    "RequestOutput",
    "SamplingParams",
]


def __getattr__(name: str) -> object:
    """Without Triton the capstone kata can be imported, and passes."""
    if name in __all__:
        raise ImportError(missing_triton(f"solutions.engine.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
