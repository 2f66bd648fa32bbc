"""Fixtures for the tests of the katas' machinery."""

import os
import sys
from pathlib import Path

import pytest

from debubble.accelerator import current
from debubble.exercises.running.processes.forked import prepare

from .workbook import Workbook


@pytest.fixture
def workbook(tmp_path, monkeypatch):
    """Returns a Workbook with one tiny kata in a temporary folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEBUBBLE_WORKSPACE", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    # Its modules must not be mixed up with the real ones, or with the next workbook's.
    for name in [name for name in sys.modules if name.partition(".")[0] in ("solutions", "katas")]:
        monkeypatch.delitem(sys.modules, name)
    yield Workbook(tmp_path)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def own_device(monkeypatch):
    """Undoes what `--device` of a run inside a test sets for its process."""
    monkeypatch.setenv("DEBUBBLE_DEVICE", os.environ.get("DEBUBBLE_DEVICE", "auto"))


@pytest.fixture(scope="session", autouse=True)
def registered():
    """Imports a part of PyTorch that forked tests import, before pytester forgets its imports. This
    part can't be imported twice, since it registers its operators."""
    if current().name == "sim":
        import torch.distributed.tensor  # noqa: F401


@pytest.fixture(scope="module")
def prepared():
    """Imports Triton before pytester runs, which forgets all modules that are imported later."""
    if current().name == "sim":
        prepare("sim")
