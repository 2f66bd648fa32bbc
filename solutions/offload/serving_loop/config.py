"""The configuration of the serving loop: one GPU's share of a decoder, and requests that share long
prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from solutions.common.decoder.shape import DecoderShape, check_counts

COUNTS = (
    "block_size",
    "prefix_tokens",
    "new_tokens",
    "num_prefixes",
    "num_requests",
    "max_running",
    "loads_ahead",
)


@dataclass(frozen=True, kw_only=True)
class ServingConfig(DecoderShape):
    """A decoder's shape, and the requests that are served. Sizes are those of one GPU's share.
    Raises ValueError for a configuration that can't be served."""

    block_size: int = 16
    """Number of tokens of a KV block."""
    prefix_tokens: int
    """Tokens at the start of a request whose keys and values are in CPU memory: whole blocks."""
    new_tokens: int
    """Number of tokens that each request generates."""
    num_prefixes: int
    """Number of different prefixes: request i has prefix i % num_prefixes."""
    num_requests: int
    max_running: int
    """The most requests that run in one step."""
    loads_ahead: int
    """The most requests that are loading their prefix, or have loaded it and wait for a slot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, COUNTS)
        if self.prefix_tokens % self.block_size:
            raise ValueError(
                f"a prefix of {self.prefix_tokens} tokens in blocks of {self.block_size}: only "
                "full blocks are offloaded"
            )

    @classmethod
    def tiny(cls) -> ServingConfig:
        """Returns a configuration that takes a few seconds on sim, in float32 so that tokens can be
        compared."""
        return cls(
            num_layers=2,
            hidden_size=32,
            intermediate_size=64,
            num_heads=2,
            num_kv_heads=1,
            head_size=16,
            vocab_size=64,
            block_size=4,
            prefix_tokens=8,
            new_tokens=3,
            num_prefixes=2,
            num_requests=5,
            max_running=2,
            loads_ahead=2,
            dtype=torch.float32,
        )

    @classmethod
    def of_the_chapter(cls) -> ServingConfig:
        """Returns chapter 05's configuration: loads of 256 pieces of 8 KiB, for a model that is
        small beside them."""
        return cls(
            num_layers=4,
            hidden_size=64,
            intermediate_size=64,
            num_heads=1,
            num_kv_heads=1,
            head_size=128,
            vocab_size=64,
            prefix_tokens=1024,
            new_tokens=2,
            num_prefixes=2,
            num_requests=4,
            max_running=2,
            loads_ahead=2,
        )

    @classmethod
    def small(cls) -> ServingConfig:
        """Returns a configuration with a model so small that on a GPU a batch of 1536 pieces keeps
        the host busy longer than a step."""
        return cls(
            num_layers=24,
            hidden_size=1024,
            intermediate_size=2816,
            num_heads=8,
            num_kv_heads=1,
            head_size=128,
            vocab_size=32_000,
            prefix_tokens=1024,
            new_tokens=8,
            num_prefixes=4,
            num_requests=16,
            max_running=4,
            loads_ahead=2,
        )

    @classmethod
    def llama_3_70b_rank(cls) -> ServingConfig:
        """Returns the share of one of eight GPUs that run Llama-3-70B: 1 KV head, so 8 KiB of keys
        and values per block and layer. A prefix of 8192 tokens is 40,960 such pieces, 335 MB."""
        return cls(
            num_layers=80,
            hidden_size=8192,
            intermediate_size=28_672 // 8,
            num_heads=8,
            num_kv_heads=1,
            head_size=128,
            vocab_size=128_256 // 8,
            prefix_tokens=8192,
            new_tokens=16,
            num_prefixes=12,
            num_requests=48,
            max_running=8,
            loads_ahead=4,
        )

    @property
    def prefix_blocks(self) -> int:
        return self.prefix_tokens // self.block_size

    @property
    def blocks_per_request(self) -> int:
        return -(-(self.prefix_tokens + self.new_tokens) // self.block_size)

    @property
    def num_gpu_blocks(self) -> int:
        """Number of GPU blocks: enough for all requests that run or whose prefixes are loaded, and
        block 0, which belongs to no request."""
        return 1 + self.blocks_per_request * (self.max_running + self.loads_ahead)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Shape of one layer's part of a block: keys, then values."""
        return (2, self.block_size, self.num_kv_heads, self.head_size)

    @property
    def page_bytes(self) -> int:
        """Bytes of one layer's part of a block."""
        return 2 * self.block_size * self.num_kv_heads * self.head_size * self.dtype.itemsize

    @property
    def gpu_bytes(self) -> int:
        """Bytes of GPU memory to run this: weights and KV cache, plus about as much as a step
        needs."""
        embedding = self.vocab_size * self.hidden_size * self.dtype.itemsize
        cache = self.num_layers * self.num_gpu_blocks * self.page_bytes
        return self.weight_bytes + embedding + cache + 4 * 2**30
