"""`torch.cuda.manual_seed` and related functions. Sim draws all random numbers from the CPU's
default generator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    torch.set_rng_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for state in new_states:
        set_rng_state(state)


FUNCTIONS = {
    "manual_seed": manual_seed,
    "manual_seed_all": manual_seed,
    "seed": torch.default_generator.seed,
    "seed_all": torch.default_generator.seed,
    "initial_seed": torch.default_generator.initial_seed,
    "get_rng_state": get_rng_state,
    "set_rng_state": set_rng_state,
    "get_rng_state_all": get_rng_state_all,
    "set_rng_state_all": set_rng_state_all,
}
"""The replacements for functions of `torch.cuda` and `torch.cuda.random`, by name."""
