"""The presets of the benchmarks: engines of a model, and their loads."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

from solutions.flex_graph import Limits

from ..model.config import EngineConfig, ModelConfig


@dataclass(frozen=True, kw_only=True)
class EnginePreset(ModelConfig):
    """A preset of an engine: the fields of its model's config and of its EngineConfig, in one
    dataclass."""

    limits: Limits
    max_images: int
    num_states: int
    num_cpu_blocks: int
    num_cpu_states: int
    loads_ahead: int
    capture_sizes: tuple[int, ...]
    """The one size for which decode steps have a graph: a smaller step is padded to it, which costs
    a decode hardly anything."""
    prefill_sizes: tuple[int, ...]
    num_drafts: int

    @classmethod
    def of(cls, config: EngineConfig, **asked: object) -> Self:
        engine = vars(config) | {"capture_sizes": (config.limits.max_num_seqs,)}
        del engine["model"]
        return cls(**(vars(config.model) | engine | asked))

    @property
    def config(self) -> EngineConfig:
        model = {field.name: getattr(self, field.name) for field in fields(ModelConfig)}
        engine = {field.name: getattr(self, field.name) for field in fields(EngineConfig)[1:]}
        return EngineConfig(model=ModelConfig(**model), **engine)


@dataclass(frozen=True, kw_only=True)
class ServingPreset(EnginePreset):
    """An engine, and the sizes of the loads that are measured on it: decode and prefill steps, a
    batch, and many requests."""

    image_tokens: int = 0
    """Tokens of the one image of a prompt; 0 is none."""
    cached_tokens: int = 24
    """Tokens of each request's prompt before its decode steps are measured."""
    prefill_tokens: int = 24
    """Tokens of each prompt in a prefill step."""
    latency_tokens: tuple[int, int]
    """Tokens of each request of the batch whose latency is measured: of its prompt, and of its
    answer."""
    num_requests: int
    """The number of requests whose throughput is measured. They are served as there is room."""
    prompt_tokens: tuple[int, int]
    """Fewest and most tokens of a prompt when throughput is measured."""
    new_tokens: tuple[int, int]
    """Fewest and most tokens of an answer when throughput is measured."""
    rates: tuple[float, ...] = ()
    """Rates in requests a second: throughput is measured for requests that arrive at each of them,
    and for requests that arrive all at once."""
    runs: int
    """How often the latency of a batch is measured, and the throughput of requests that arrive at
    once."""

    @property
    def batch(self) -> int:
        return self.limits.max_num_seqs

    def of_runs(self, most: int) -> ServingPreset:
        """Returns the same preset with at most `most` runs. One run is for readers who only want to
        see the benchmark run: requests that arrive at a rate are left out."""
        return replace(self, runs=min(self.runs, most), rates=self.rates if most > 1 else ())

    @classmethod
    def hybrid(cls) -> ServingPreset:
        return cls.of(
            EngineConfig.hybrid(),
            image_tokens=8,
            latency_tokens=(32, 64),
            num_requests=32,
            prompt_tokens=(16, 96),
            new_tokens=(8, 48),
            rates=(32.0,),
            runs=2,
        )

    @classmethod
    def hybrid_on_sim(cls) -> ServingPreset:
        """Returns the preset `hybrid` with fewer requests and shorter answers, since sim computes
        each step."""
        return replace(
            cls.hybrid(),
            latency_tokens=(32, 4),
            num_requests=4,
            prompt_tokens=(16, 32),
            new_tokens=(2, 4),
            rates=(),
            runs=1,
        )

    @classmethod
    def llama_3_8b(cls) -> ServingPreset:
        return cls.of(
            EngineConfig.llama_3_8b(),
            cached_tokens=512,
            latency_tokens=(32, 128),
            num_requests=16,
            prompt_tokens=(32, 256),
            new_tokens=(16, 48),
            rates=(12.0,),
            runs=1,
        )


@dataclass(frozen=True, kw_only=True)
class PrefixPreset(EnginePreset):
    """An engine and requests that continue from long prefixes, more of them than the device has
    room for."""

    num_prefixes: int
    prefix_tokens: int
    """Tokens of a prefix: whole blocks."""
    num_requests: int
    new_tokens: int
    num_compared: int
    """Requests that are served one by one first, to compare their tokens between variants."""

    @classmethod
    def tiny(cls) -> PrefixPreset:
        config = EngineConfig.tiny()
        limits = replace(config.limits, max_num_seqs=2, num_gpu_blocks=1 + 2 * 3)
        return cls.of(
            replace(config, limits=limits, num_cpu_blocks=3 * 2),
            num_prefixes=3,
            prefix_tokens=32,
            num_requests=6,
            new_tokens=3,
            num_compared=1,
        )

    @classmethod
    def llama_3_70b_rank(cls) -> PrefixPreset:
        """Returns a preset with 12 prefixes of 8192 tokens, and room for 9 on the device: when a
        prefix is used again, its blocks have been overwritten 3 requests before."""
        return cls.of(
            EngineConfig.llama_3_70b_rank(),
            num_prefixes=12,
            prefix_tokens=8192,
            num_requests=48,
            new_tokens=16,
            num_compared=4,
        )

    @property
    def gpu_bytes(self) -> int:
        """Approximate bytes of GPU memory for weights, for the caches of two engines and of their
        model, and for a long prefill besides."""
        embedding = self.num_ids * self.hidden_size * self.dtype.itemsize
        return self.config.model.weight_bytes + embedding + 3 * self.config.kv_bytes + 8 * 2**30
