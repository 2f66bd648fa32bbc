"""Triton imported too early, kernels of the other accelerator, and a platform without Triton."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from debubble.accelerator.triton_mode import check_kernel, is_interpreted

ROOT = Path(__file__).parents[2]
WITHOUT_TRITON = "import sys\nsys.modules['triton'] = None\n"

TOO_EARLY = """
import torch, triton
import triton.language as tl

@triton.jit
def defined_first(x):
    tl.store(x, 1.0)

import debubble
from debubble.accelerator import launch

@triton.jit
def simple(x):
    tl.store(x, 2.0)

@triton.jit
def with_the_library(x, n: tl.constexpr):
    tl.store(x, tl.sum(tl.load(x + tl.arange(0, n)), 0))

x = torch.zeros(4, device=debubble.accelerator("sim").device)
launch(simple, (1,), x)
assert x.tolist() == [2.0, 0.0, 0.0, 0.0]
for kernel, rest in (defined_first, ()), (with_the_library, (4,)):
    try:
        launch(kernel, (1,), x, *rest)
    except RuntimeError as error:
        print(error)
"""

FIRST_CHAPTER = """
import json
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in json.load(open("chapters/00_reading_a_timeline.ipynb"))["cells"]:
    if cell["cell_type"] == "code":
        shell.run_cell("".join(cell["source"])).raise_error()
print("came to its end")
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**without, "DEBUBBLE_DEVICE": "sim", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def no_triton(tmp_path):
    """Environment variables of a Python that has no Triton, nor have the processes it starts."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRITON)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}


def test_a_kernel_that_was_made_too_early_is_told_what_to_do():
    run = python(TOO_EARLY)
    assert run.returncode == 0, run.stderr
    kernel, library = run.stdout.splitlines()
    assert kernel == (
        "kernel defined_first was made for a GPU, and this process runs on sim: import debubble "
        "before the module that defines it, or set TRITON_INTERPRET=1 before Python starts"
    )
    assert library.startswith("kernel with_the_library calls a function that was made for a GPU")
    assert "import debubble before triton" in library


def test_a_kernel_of_the_other_accelerator_is_refused():
    triton = pytest.importorskip("triton")

    @triton.jit
    def copy(x, y):
        pass

    here, other = ("sim", "cuda") if is_interpreted() else ("cuda", "sim")
    check_kernel(copy, here)
    check_kernel(print, other)
    with pytest.raises(RuntimeError, match="kernel copy was made for"):
        check_kernel(copy, other)


def test_without_triton_the_first_chapter_runs(no_triton):
    pytest.importorskip("IPython")
    run = python(FIRST_CHAPTER, **no_triton)
    assert run.stdout.endswith("came to its end\n"), run.stdout[-2000:] + run.stderr[-2000:]


def test_without_triton_the_katas_run_and_chapter_01_says_what_it_needs(no_triton):
    code = """
import pytest, torch
torch.cuda.is_available = lambda: True
import debubble
print(debubble.accelerator.__globals__["resolve"]("auto"))
try:
    import solutions.pinned_h2d
except ImportError as error:
    print(error)
solved = ["--impl", "solutions", "-p", "no:cacheprovider", "-q"]
print(pytest.main(["katas/first_steps", *solved]), flush=True)
"""
    run = python(code, **no_triton | {"DEBUBBLE_DEVICE": "auto"})
    device, sentence, *rest = run.stdout.splitlines()
    assert device == "sim"
    assert sentence.startswith(
        "solutions.pinned_h2d (its attention kernel) needs Triton, which is not installed here ("
    )
    assert "chapter 00, your own katas, timelines and sim work" in sentence
    assert rest[-1] == "0", run.stdout[-2000:]
