"""Private names of PyTorch, Triton and pytest are used in `debubble/private` alone."""

import ast
import inspect
import types
from pathlib import Path

import pytest

from debubble.contract.packages.pytorch import PyTorchNeeded
from debubble.exercises.running.instruments import Instruments
from debubble.private import Missing
from debubble.private import pytest as of_pytest
from debubble.private import torch as of_torch
from debubble.private import triton as of_triton

ROOT = Path(__file__).parents[2]
FILES = [
    path
    for package in ("debubble", "solutions")
    for path in sorted((ROOT / package).rglob("*.py"))
    # A kata shows what a learner writes, with PyTorch alone.
    if not path.is_relative_to(ROOT / "debubble/private") and "katas" not in path.parts
]
OF_PYTHON = {"_asdict", "_fields", "_replace", "_exit", "_getframe", "_current_frames"}
OF_PYTHON |= {"_SimpleCData", "_CDataType", "_DummyThread", "_repr_mimebundle_"}
LOOKED_UP_BY_PYTORCH = {"_is_in_bad_fork"}
"""Attributes that PyTorch asks a device's module for."""


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def defined(tree):
    """Yields the private names that a file gives to functions, classes and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [node.attr] * (ast.unparse(node.value) in ("self", "cls"))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def used(tree):
    """Yields each attribute and each imported name, and the parts of each imported module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            of = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            yield from ((node.lineno, part) for name in of for part in name.split("."))


def test_no_private_name_is_used_outside_of_the_door():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    known = {name for tree in trees.values() for name in defined(tree)}
    known |= OF_PYTHON | LOOKED_UP_BY_PYTORCH
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, tree in trees.items()
        for line, name in used(tree)
        if is_private(name) and name not in known
    ]
    assert found == []


@pytest.mark.parametrize("door", [of_torch, of_triton, of_pytest])
def test_the_installed_versions_have_each_name(door):
    if door is of_triton:
        pytest.importorskip("triton")
    assert [name for name, value in vars(door).items() if isinstance(value, Missing)] == []


def test_who_looks_at_all_names_of_a_module_is_not_refused_one_that_is_missing(monkeypatch):
    monkeypatch.setattr(of_torch, "gone", of_torch.NAMES.bind("torch._C:_gone"), raising=False)
    instruments = Instruments()
    instruments.note()
    instruments.must_be_as_they_were()
    assert inspect.getdoc(of_torch.gone) and not inspect.isfunction(of_torch.gone)


def test_a_missing_name_refuses_its_feature_in_a_sentence():
    missing = of_torch.NAMES.bind("torch._C:_gone.Guard", seen="2.11 to 2.12")
    assert not missing
    reason = (
        rf"debubble needs the private name torch\._C\._gone\.Guard of PyTorch 2\.11 to 2\.12, "
        rf"which {of_torch.VERSION} lacks: use one of these versions".replace("+", r"\+")
    )
    for use in (
        missing,
        lambda: missing.value,
        lambda: types.new_class("Ours", (missing,)),
        lambda: 1 in missing,
    ):
        with pytest.raises(PyTorchNeeded, match=reason):
            use()
