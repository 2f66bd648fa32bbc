"""Expressions whose effects were measured on a GPU, and their measurement on this accelerator."""

from __future__ import annotations

import ast
import io
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

import numpy
import torch

import debubble

EFFECTS = Path(__file__).parents[2] / "assets" / "effects"
COPIES_AND_WAITS = ("host_syncs", "h2d_pageable", "h2d_pinned", "d2h", "d2d")


@dataclass(frozen=True)
class Expression:
    text: str
    setup: str
    effects: dict[str, int]

    def __str__(self) -> str:
        return self.text

    def prepare(self, accelerator) -> dict:
        """Runs the statements of `setup` that the expression needs on this accelerator, and returns
        the names that they define. Random numbers are equal in every run, since the printed form of
        a tensor depends on them."""
        names = {"D": accelerator.device.type, "acc": accelerator, "np": numpy, "io": io}
        names["large"] = large()
        torch.manual_seed(0)
        exec(for_accelerator(needed(self.setup, self.text)), names)
        return names

    def run(self, names: dict) -> None:
        exec(for_accelerator(self.text), names)

    def counts(self, accelerator) -> dict[str, int]:
        names = self.prepare(accelerator)
        with debubble.record(accelerator) as timeline:
            self.run(names)
        return timeline.counts()


def needed(setup: str, text: str) -> str:
    """Returns the statements of `setup` that define a name which `text`, or a later one of these
    statements, uses: making all tensors takes longer than most expressions."""
    used, kept = names_in(text), []
    for statement, names in reversed(statements_of(setup)):
        if names & used:
            kept.append(statement)
            used |= names_in(statement)
    return "\n".join(reversed(kept))


@cache
def statements_of(setup: str) -> list[tuple[str, set[str]]]:
    """Returns (source, the names that it defines) for each statement of `setup`."""
    found = []
    for statement in ast.parse(setup).body:
        if isinstance(statement, ast.Import):
            names = {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
        else:
            names = {node.id for node in ast.walk(statement) if is_defined(node)}
        found.append((ast.unparse(statement), names))
    return found


def names_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def is_defined(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


@cache
def large() -> torch.Tensor:
    """Returns a million random numbers on the host, made once: this takes longer than most
    expressions."""
    return torch.randn(1 << 20)


def for_accelerator(text: str) -> str:
    """Returns the expression's text with the calls of torch.cuda replaced by those of `acc`, and a
    tensor of a million random numbers replaced by a copy of `large()`."""
    for cuda, ours in {
        "torch.cuda.current_stream()": "acc.current_stream()",
        "torch.cuda.synchronize()": "acc.synchronize()",
        "torch.cuda.Stream()": "acc.stream()",
        "torch.cuda.Event()": "acc.event()",
        "torch.cuda.empty_cache()": "None",
        "torch.randn(1 << 20)": "large.clone()",
    }.items():
        text = text.replace(cuda, ours)
    return text


def measured_on_h200(name: str) -> list[Expression]:
    recorded = json.loads((EFFECTS / f"{name}.json").read_text())
    setup = recorded["meta"]["setup"]
    return [Expression(row["expr"], setup, row["effects"]) for row in recorded["expressions"]]
