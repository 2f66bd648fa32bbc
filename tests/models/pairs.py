"""Cases that cover each pair of features of models and engine, and how each is served."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from allpairspy import AllPairs

from solutions.engine import NAMES, Optimizations, SamplingParams

from .tiny import FAMILIES, LLAMA_3_ROPE

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
ROPES: dict[str, dict[str, Any]] = {
    "plain": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0},
    "llama3": LLAMA_3_ROPE,
    "yarn": {**YARN, "rope_theta": 500.0},
}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.7},
    "bad words": {"bad_words": [[3], [5, 7], [11]]},
    "top 1": {"temperature": 0.8, "top_k": 1, "seed": 5},
    "tiny top p": {"temperature": 1.5, "top_p": 1e-6, "seed": 5},
}
"""Sampling parameters with which an answer is as certain as a greedy one."""
TOKENS = 6


@dataclass(frozen=True)
class Case:
    """A choice of each feature, by which a checkpoint is made and served."""

    family: str
    rope: str
    kv_heads: int
    tied: bool
    window: int | None
    switches: str
    prefix: str
    """"none", or where the beginning of the prompts is found: "device" or "host"."""
    graphs: str
    budget: int
    """Tokens of a step: prompts of up to 37 are cut into chunks."""
    drafts: int
    requests: int
    block: int
    sampling: str

    def __str__(self) -> str:
        return "-".join(f"{getattr(self, field.name)}".replace(" ", "_") for field in fields(self))

    @property
    def changes(self) -> dict[str, Any]:
        """The fields of the checkpoint's config."""
        shape: dict[str, Any] = {
            "num_key_value_heads": self.kv_heads,
            "tie_word_embeddings": self.tied,
        }
        if self.rope != "own":
            shape["rope_parameters"] = ROPES[self.rope]
        if self.family == "mistral":
            shape["sliding_window"] = self.window
        elif self.family in ("qwen2", "qwen3"):
            shape["use_sliding_window"] = self.window is not None
            shape["sliding_window"], shape["max_window_layers"] = self.window or 4096, 1
        elif self.family == "gemma3_text" and self.window:
            shape["sliding_window"] = self.window
        return shape

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes of the engine."""
        graphs: dict[str, dict[str, Any]] = {
            "eager": {"capture_sizes": ()},
            "decodes": {},
            "padded": {"capture_sizes": (2,)},
            "prefills": {"prefill_sizes": tuple({8, min(24, self.budget)})},
        }
        return {
            "max_model_len": 64,
            "max_num_seqs": 2,
            "max_num_batched_tokens": self.budget,
            "block_size": self.block,
            "num_cpu_blocks": 8 if self.prefix == "host" else 0,
            "num_drafts": self.drafts,
            **graphs[self.graphs],
        }

    @property
    def optimizations(self) -> Optimizations:
        if self.switches in ("all", "none"):
            return Optimizations() if self.switches == "all" else Optimizations.none()
        return Optimizations(**{self.switches: False})

    @property
    def params(self) -> SamplingParams:
        return SamplingParams(max_tokens=TOKENS, **SAMPLINGS[self.sampling])


FEATURES: dict[str, Sequence[Any]] = {
    "family": FAMILIES,
    "rope": ("own", *ROPES),
    "kv_heads": (1, 2, 4),
    "tied": (False, True),
    "window": (None, 6),
    "switches": ("all", "none", *NAMES),
    "prefix": ("none", "device", "host"),
    "graphs": ("eager", "decodes", "padded", "prefills"),
    "budget": (8, 24, 48),
    "drafts": (0, 2),
    "requests": (1, 3),
    "block": (16, 32),
    "sampling": tuple(SAMPLINGS),
}


def is_possible(row: Sequence[Any]) -> bool:
    """Returns False for a choice of the first features that no checkpoint or engine has."""
    known = dict(zip(FEATURES, row, strict=False))
    family = known["family"]
    if family in ("gemma3_text", "qwen3_next") and known.get("rope", "own") != "own":
        return False
    if family in ("llama", "qwen3_next") and known.get("window"):
        return False
    return not (family == "qwen3_next" and known.get("drafts"))


def cases_of(order: int) -> list[Case]:
    """Returns cases in which each possible pair of features occurs. `order` is the seed of the
    order in which the values of a feature are tried: other orders give other cases."""
    shuffled = OrderedDict(
        (name, random.Random(f"{order} {name}").sample(list(values), len(values)))
        for name, values in FEATURES.items()
    )
    rows = AllPairs(list(shuffled.values()), filter_func=is_possible)
    return [Case(*row) for row in rows]
