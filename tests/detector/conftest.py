"""A tensor that may be waited for, and the command `debubble syncs` on a script's text."""

import sys

import pytest
import torch
from typer.testing import CliRunner

from debubble.cli import app


@pytest.fixture
def x(accelerator):
    return torch.ones(4, 4, device=accelerator.device)


@pytest.fixture
def syncs(tmp_path, monkeypatch, accelerator, as_a_script):
    """Returns syncs(text, *options, of=("script.py",)), which writes a script with this text to a
    new working folder, runs `debubble syncs` on `of` in this process, and returns the command's
    result."""
    accelerator.synchronize()
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.chdir(tmp_path)

    def syncs(text: str, *options: str, of: tuple[str, ...] = ("script.py",)):
        (tmp_path / "script.py").write_text(text)
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["syncs", *options, *of])

    return syncs
