"""The configuration of a step: the model's shape, and the requests with their images."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class ImageStepConfig:
    """The sizes of a model, and the requests of its step. Each request is a prompt of
    `tokens_per_request` tokens that contains `images_per_request` images of `image_tokens` tokens,
    evenly spread."""

    num_layers: int = 48
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    num_requests: int = 16
    tokens_per_request: int
    images_per_request: int = 1
    image_tokens: int
    max_ranges: int = 8
    window: int | None = None
    block_size: int = 16
    dtype: torch.dtype = torch.bfloat16
    seed: int = 0

    @classmethod
    def small(cls) -> ImageStepConfig:
        """Returns a configuration of 48 narrow layers: a step takes seconds on sim, and on a GPU
        the host is what limits it."""
        return cls(
            hidden_size=64,
            intermediate_size=128,
            num_heads=2,
            num_kv_heads=1,
            head_size=32,
            tokens_per_request=16,
            image_tokens=8,
            max_ranges=2,
            window=8,
        )

    @classmethod
    def gemma_like(cls) -> ImageStepConfig:
        """Returns a configuration with the shape of a 12-billion-parameter model, for a GPU with 40
        GB or more."""
        return cls(
            hidden_size=3840,
            intermediate_size=15360,
            num_heads=16,
            num_kv_heads=8,
            head_size=256,
            tokens_per_request=512,
            image_tokens=256,
            window=1024,
        )

    def window_of_layer(self, index: int) -> int | None:
        """Returns the size of layer `index`'s sliding window in tokens; None for every sixth layer,
        which sees the whole context."""
        return None if index % 6 == 5 else self.window

    def ranges(self) -> dict[int, list[tuple[int, int]]]:
        """Returns the prefix ranges of all requests, by request: the (start, end) of each image in
        the prompt, both inclusive. Raises ValueError if the images don't fit into the prompt."""
        room = self.tokens_per_request // max(self.images_per_request, 1)
        if self.image_tokens > room:
            raise ValueError(
                f"{self.images_per_request} images of {self.image_tokens} tokens do not fit into "
                f"a prompt of {self.tokens_per_request} tokens"
            )
        starts = [
            i * room + (room - self.image_tokens) // 2 for i in range(self.images_per_request)
        ]
        spans = [(start, start + self.image_tokens - 1) for start in starts]
        return {request: list(spans) for request in range(self.num_requests)}
