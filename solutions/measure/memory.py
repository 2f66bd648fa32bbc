"""The rate of a GPU's memory by its data sheet, which no step can exceed."""

from __future__ import annotations

from debubble.accelerator import Accelerator

BYTES_PER_S = {"NVIDIA H100 80GB HBM3": 3.35e12, "NVIDIA H200": 4.8e12}
"""Nominal bytes a second of a GPU's memory, by the GPU's name: H100 SXM and H200."""


def nominal_bytes_per_s(accelerator: Accelerator) -> float | None:
    """Returns the nominal rate of the accelerator's memory, or None for one that is not in
    BYTES_PER_S, as sim."""
    return None if accelerator.modelled else BYTES_PER_S.get(accelerator.description)
