"""Sim's counts of ordinary programs, and of the steps of each system before and after."""

from __future__ import annotations

from collections.abc import Callable

import torch

import debubble
from debubble.accelerator import Accelerator

from .programs import PROGRAMS
from .steps import STEPS

Counts = dict[str, int]


def program_counts() -> dict[str, dict[str, Counts]]:
    """Returns {subject: {program: sim's counts of one run}} for all programs."""
    return {
        subject: {name: counts_of(program) for name, program in programs.items()}
        for subject, programs in PROGRAMS.items()
    }


def step_counts() -> dict[str, dict[str, Counts]]:
    """Returns {system: {step: sim's counts}} for the steps of each system."""
    accelerator = debubble.accelerator("sim")
    return {
        system: {name: recorded(accelerator, step) for name, step in steps(accelerator)}
        for system, steps in STEPS.items()
    }


def counts_of(program: Callable) -> Counts:
    """Returns the counts of a program's second run, since the first one allocates."""
    accelerator = debubble.accelerator("sim")
    torch.manual_seed(0)
    run = program(accelerator, accelerator.device)
    run()
    return recorded(accelerator, run)


def recorded(accelerator: Accelerator, run: Callable[[], object]) -> Counts:
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        run()
    return timeline.counts()
