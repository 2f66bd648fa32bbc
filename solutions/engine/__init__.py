"""A small inference engine in which each of the five optimisations can be switched on and off.
README.md says in which order to read it; `seams.py` says what each optimisation changes."""

# Import this first: it decides whether Triton compiles or interprets, which Triton reads when it is
# imported.
from debubble.contract.packages.triton_mode import is_there, refusing_without_triton

try:
    from .engine import Engine
    from .model.config import EngineConfig, ModelConfig
    from .model.model import Model
    from .model.reference import Reference
    from .optimizations import NAMES, Optimizations
    from .requests.request import Request, RequestOutput, SamplingParams, Status
    from .requests.stats import EngineStats
    from .scheduler import Scheduler
    from .seams import Seam, Seams
except ImportError:
    if is_there():
        raise

__all__ = [
    "NAMES",
    "Engine",
    "EngineConfig",
    "EngineStats",
    "Model",
    "ModelConfig",
    "Optimizations",
    "Reference",
    "Request",
    "RequestOutput",
    "SamplingParams",
    "Scheduler",
    "Seam",
    "Seams",
    "Status",
]

__getattr__ = refusing_without_triton(__name__, __all__)
