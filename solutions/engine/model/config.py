"""The configs of an engine: a model's shape, and the sizes of steps, caches and graphs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal, get_args

import torch

from solutions.common.decoder.shape import DecoderShape, check_counts
from solutions.common.host_integers import is_integer
from solutions.flex_graph import FlexConfig, Limits
from solutions.flex_graph.steps.limits import checked_capture_sizes
from solutions.gdn import GDNConfig
from solutions.offload.serving_loop.config import ServingConfig

from .architecture import PLAIN, Architecture

LayerKind = Literal["flex", "spans", "gdn"]
"""The kind of a layer. flex is FlexAttention, spans is attention in which an image's tokens attend
to one another both ways, and gdn is Gated DeltaNet."""
KINDS = get_args(LayerKind)


@dataclass(frozen=True, kw_only=True)
class ModelConfig(FlexConfig):
    """The config of a model with layers of several kinds. Raises ValueError for an unknown kind,
    for a negative image_vocab_size, and for the errors of FlexConfig."""

    pattern: tuple[LayerKind, ...] = ("flex",)
    """Layer i is of kind pattern[i % len(pattern)]."""
    image_vocab_size: int = 0
    """The number of ids of image patches, which come after the ids of text: from vocab_size on.
    Only text is generated."""
    gdn_k_heads: int = 1
    gdn_v_heads: int = 2
    gdn_head_size: int = 16
    """Size of a key head in Gated DeltaNet, and of a value head unless `gdn_value_size` is set."""
    gdn_value_size: int | None = None
    gdn_conv_width: int = 4
    architecture: Architecture = PLAIN
    """The options that the model's family adds to a plain decoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [kind for kind in self.pattern if kind not in KINDS]
        if unknown or not self.pattern:
            raise ValueError(f"layers {list(self.pattern)}: each is one of {', '.join(KINDS)}")
        if self.image_vocab_size < 0:
            raise ValueError(f"image_vocab_size {self.image_vocab_size}: it is at least 0")

    @classmethod
    def hybrid(cls) -> ModelConfig:
        """Returns the config of a model with all three kinds of layers, so narrow that a step takes
        a second on sim."""
        return cls(
            num_layers=8,
            hidden_size=64,
            intermediate_size=128,
            num_heads=2,
            num_kv_heads=1,
            head_size=32,
            vocab_size=256,
            pattern=("gdn", "flex", "gdn", "spans"),
            image_vocab_size=64,
        )

    @classmethod
    def llama_3_70b_rank(cls) -> ModelConfig:
        """Returns the config of the part of Llama-3-70B that is on each of eight GPUs: 1 KV head,
        18 GB of weights."""
        served = ServingConfig.llama_3_70b_rank()
        return cls(**{field.name: getattr(served, field.name) for field in fields(DecoderShape)})

    @property
    def num_ids(self) -> int:
        """The number of token ids, those of text and those of image patches."""
        return self.vocab_size + self.image_vocab_size

    def kind_of_layer(self, index: int) -> LayerKind:
        return self.pattern[index % len(self.pattern)]

    def num_layers_of(self, kind: LayerKind) -> int:
        return sum(self.kind_of_layer(index) == kind for index in range(self.num_layers))

    def gdn(self, num_slots: int) -> GDNConfig:
        """Returns the config of the model's Gated DeltaNet layers, each with `num_slots` states."""
        return GDNConfig(
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            num_k_heads=self.gdn_k_heads,
            num_v_heads=self.gdn_v_heads,
            head_k_dim=self.gdn_head_size,
            head_v_dim=self.gdn_value_size or self.gdn_head_size,
            conv_width=self.gdn_conv_width,
            num_slots=num_slots,
            norm_eps=self.norm_eps,
            dtype=self.dtype,
        )


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """A model, and the sizes of an engine that serves it. Raises ValueError for a count below 1
    (`num_cpu_blocks`, `num_drafts`: below 0), for `capture_sizes` that no step has, and for drafts
    that the model or the limits don't allow."""

    model: ModelConfig
    limits: Limits
    """The largest sizes of a step, of a request, and of the KV cache on the device."""
    max_images: int = 4
    """The most images of one request."""
    num_states: int = 8
    """Prefix states that the device keeps for Gated DeltaNet layers, beside those of running
    requests."""
    num_cpu_blocks: int = 0
    """KV blocks in pinned host memory; 0 turns offloading off."""
    num_cpu_states: int = 8
    """Prefix states in pinned host memory."""
    loads_ahead: int = 4
    """The most requests whose prefix is being loaded from host memory."""
    capture_sizes: tuple[int, ...] | None = None
    """Numbers of requests for which a decode step has a graph; by default 1, 2, 4, 8, 16, … up to
    max_num_seqs."""
    prefill_sizes: tuple[int, ...] = ()
    """Numbers of tokens for which a step with prompts has a graph: a switch besides the five.
    Without any, these steps run eagerly, kernel by kernel. `default_prefill_sizes` returns good
    ones."""

    num_drafts: int = 0
    """Tokens that n-gram speculation drafts for each request of a decode step; 0 is none."""

    def __post_init__(self) -> None:
        check_counts(self, ("max_images", "num_states", "num_cpu_states", "loads_ahead"))
        if not is_integer(self.num_cpu_blocks) or self.num_cpu_blocks < 0:
            raise ValueError(f"num_cpu_blocks {self.num_cpu_blocks!r}: it is at least 0")
        checked_capture_sizes(self.capture_sizes or (), self.limits, "max_num_seqs")
        checked_capture_sizes(self.prefill_sizes, self.limits)
        self._check_drafts()

    @classmethod
    def tiny(cls) -> EngineConfig:
        """Returns a config that is exact enough to compare tokens, and as quick on sim as
        possible."""
        model = replace(
            ModelConfig.hybrid(),
            num_layers=3,
            hidden_size=32,
            intermediate_size=32,
            num_kv_heads=1,
            head_size=16,
            vocab_size=64,
            pattern=("gdn", "flex", "spans"),
            image_vocab_size=32,
            gdn_v_heads=1,
            dtype=torch.float32,
        )
        limits = Limits(
            max_num_seqs=8, max_num_batched_tokens=64, max_model_len=96, num_gpu_blocks=28
        )
        return cls(model=model, limits=limits, num_cpu_blocks=32)

    @classmethod
    def hybrid(cls, num_layers: int = 8) -> EngineConfig:
        """Returns a config for 8 requests of a hybrid model, narrow enough for sim."""
        limits = Limits(
            max_num_seqs=8, max_num_batched_tokens=256, max_model_len=256, num_gpu_blocks=160
        )
        model = replace(ModelConfig.hybrid(), num_layers=num_layers)
        return cls(model=model, limits=limits, num_cpu_blocks=160)

    @classmethod
    def llama_3_8b(cls) -> EngineConfig:
        """Returns a config for 8 requests of up to 1024 tokens, on a GPU with 40 GB or more."""
        limits = Limits(
            max_num_seqs=8, max_num_batched_tokens=2048, max_model_len=1024, num_gpu_blocks=1024
        )
        model = ModelConfig(**vars(FlexConfig.llama_3_8b()))
        return cls(model=model, limits=limits)

    @classmethod
    def llama_3_70b_rank(cls) -> EngineConfig:
        """Returns a config for 12 prefixes of 8192 tokens in host memory, each of which is copied
        in 81,920 pieces of 4 KiB. The device has room for 9 of them, each with the tokens that a
        request may add."""
        limits = Limits(
            max_num_seqs=8,
            max_num_batched_tokens=8192,
            max_model_len=8256,
            num_gpu_blocks=1 + 9 * 516,
        )
        return cls(model=ModelConfig.llama_3_70b_rank(), limits=limits, num_cpu_blocks=12 * 512)

    @cached_property
    def layout(self) -> bytes:
        """A digest of all that decides what the bytes of a cached block mean: the model's config,
        its dtype included, and the block's size."""
        return hashlib.sha256(f"{self.limits.block_size} {self.model!r}".encode()).digest()

    @property
    def longest_request(self) -> int:
        """The most tokens of a request, its answer included, even if it has all blocks for
        itself."""
        limits = self.limits
        # A step also computes drafts after the last token.
        most = limits.max_model_len - self.num_drafts
        return min(most, (limits.num_gpu_blocks - 1) * limits.block_size)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache on the device, over all layers."""
        attention_layers = self.model.num_layers - self.model.num_layers_of("gdn")
        of_slot = 2 * self.model.num_kv_heads * self.model.head_size * self.model.dtype.itemsize
        return attention_layers * self.limits.num_slots * of_slot

    def _check_drafts(self) -> None:
        num_drafts, limits = self.num_drafts, self.limits
        if not is_integer(num_drafts) or num_drafts < 0:
            raise ValueError(f"num_drafts {num_drafts!r}: it is at least 0")
        if not num_drafts:
            return
        if self.model.num_layers_of("gdn"):
            raise ValueError(
                f"num_drafts {num_drafts} for a model with Gated DeltaNet: its states can't be "
                "taken back where a draft is wrong, so leave it at 0"
            )
        most = min(limits.max_num_batched_tokens // limits.max_num_seqs, limits.max_model_len) - 1
        if num_drafts > most:
            raise ValueError(
                f"num_drafts {num_drafts}: a step of {limits.max_num_batched_tokens} tokens "
                f"(max_num_batched_tokens) for {limits.max_num_seqs} requests, of up to "
                f"{limits.max_model_len} tokens each, has room for {most}"
            )


SMALLEST_PREFILL, LARGEST_PREFILL = 64, 512
"""Tokens of the smallest and the largest graph in `default_prefill_sizes`. A smaller step is padded
to the smallest graph, and a larger one keeps the device busy while the host launches its kernels
one by one."""


def default_prefill_sizes(limits: Limits) -> tuple[int, ...]:
    """Returns 64, 128, 256 and 512. If a step has at most n < 512 tokens, returns those below n,
    and n. Padding a step of 64 tokens or more to these sizes at most doubles its tokens."""
    most = min(limits.max_num_batched_tokens, LARGEST_PREFILL)
    doubled = (SMALLEST_PREFILL << number for number in range(most.bit_length()))
    return (*(size for size in doubled if size < most), most)
