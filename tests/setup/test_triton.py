"""Triton imported too early, kernels of the other accelerator, and a platform without Triton."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from debubble.accelerator import choice
from debubble.contract.packages import triton_mode
from debubble.contract.packages.triton_mode import check_launch, is_interpreted

ROOT = Path(__file__).parents[2]
IMPORT_PATH = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
WITHOUT_TRITON = "import sys\nsys.modules['triton'] = None\n"

TOO_EARLY = """
import torch, triton
import triton.language as tl

@triton.jit
def add_one(values):
    return values + 1.0

@triton.jit
def defined_first(x, n: tl.constexpr):
    tl.store(x, tl.sum(add_one(tl.load(x + tl.arange(0, n))), 0))

import debubble
from debubble.accelerator import launch

@triton.jit
def defined_then(x, n: tl.constexpr):
    values = add_one(tl.load(x + tl.arange(0, n)))
    tl.store(x, values.sum(0) + values.max(0) + tl.argmax(values, 0) + tl.cdiv(n, 3))

device = debubble.accelerator("sim").device
for kernel in (defined_first, defined_then):
    x = torch.arange(4.0).to(device)
    launch(kernel, (1,), x, 4)
    print(x.tolist())
"""

IMPORTS = (
    "import numpy",
    "import torch",
    "import torch._inductor.runtime.triton_helpers",
    "import triton.language",
    "from transformers import LlamaForCausalLM",
    "import debubble",
    "import solutions.engine",
)
ANSWERS = """
import debubble
debubble.accelerator("sim")
from solutions.engine import Engine, EngineConfig, SamplingParams
print(Engine(EngineConfig.tiny()).generate([[1, 2, 3]], SamplingParams(max_tokens=2)))
"""

LAUNCHED_WITHOUT_TRITON = """
import torch, debubble

def kernel(x):
    return x + 1

x = torch.ones((), device=debubble.accelerator().device)
print(debubble.accelerator().launch(kernel, None, x).item())
debubble.accelerator().launch(kernel, (1,), x)
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


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    without = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={
            **without,
            "DEBUBBLE_DEVICE": "sim",
            "PYTHONPATH": os.pathsep.join(IMPORT_PATH),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def no_triton(tmp_path):
    """Returns environment variables under which Python and its child processes can't import
    Triton."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRITON)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), *IMPORT_PATH])}


def test_kernels_that_were_made_before_debubble_was_imported_run_on_sim(tmp_path):
    script = tmp_path / "too_early.py"
    script.write_text(TOO_EARLY)
    run = python(str(script))
    assert run.stdout.splitlines() == [
        "[10.0, 1.0, 2.0, 3.0]",
        "[19.0, 1.0, 2.0, 3.0]",
    ], run.stderr


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(12))
def test_the_engine_answers_whatever_was_imported_first(seed):
    pytest.importorskip("transformers")
    order = random.Random(seed).sample(IMPORTS, len(IMPORTS))
    run = python("-c", "\n".join([*order, ANSWERS]))
    assert run.stdout == "[[26, 47]]\n", f"{order}: {run.stderr[-2000:]}"


def test_triton_is_set_for_sim_when_it_is_imported_and_not_when_pytorch_asks_where_it_is():
    pytest.importorskip("triton")
    asked = "import sys, os, debubble\nfrom importlib.util import find_spec\nfind_spec('triton')\n"
    then = "print('torch' in sys.modules)\nimport triton\nprint(os.environ['TRITON_INTERPRET'])"
    run = python("-c", asked + then)
    assert run.stdout.split() == ["False", "1"], run.stderr


def test_a_kernel_of_the_other_accelerator_is_refused():
    triton = pytest.importorskip("triton")

    @triton.jit
    def copy(x, y):
        pass

    here, other = ("sim", "cuda") if is_interpreted() else ("cuda", "sim")
    check_launch(copy, (1,), here)
    check_launch(print, None, other)
    with pytest.raises(RuntimeError, match="kernel copy was made for"):
        check_launch(copy, (1,), other)


@pytest.mark.parametrize("is_tuned", [False, True])
def test_a_kernel_without_a_grid_is_refused(accelerator, is_tuned):
    triton = pytest.importorskip("triton")

    @triton.jit
    def copy(x, y):
        pass

    kernel = triton.autotune([triton.Config({})], key=[])(copy) if is_tuned else copy
    with pytest.raises(TypeError, match="kernel copy can't be launched so: give a Triton kernel"):
        accelerator.launch(kernel, None)


def test_a_tuned_kernel_runs_with_one_of_its_configurations(accelerator):
    triton = pytest.importorskip("triton")
    tl = pytest.importorskip("triton.language")

    @triton.autotune([triton.Config({"size": 4}), triton.Config({"size": 8})], key=["n"])
    @triton.heuristics({"step": lambda args: args["n"] - 5})
    @triton.jit
    def fill(x, n, size: tl.constexpr, step: tl.constexpr):
        at = tl.program_id(0) * size + tl.arange(0, size)
        tl.store(x + at, at + step, mask=at < n)

    x = torch.zeros(8, device=accelerator.device)
    accelerator.launch(fill, (2,), x, 8)
    assert x.tolist() == [3, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("grid", "shown"),
    [
        (2, "2"),
        ([2], r"\[2\]"),
        ((), r"\(\)"),
        ((1, 1, 1, 1), r"\(1, 1, 1, 1\)"),
        ((True,), r"\(True,\)"),
        ((2.0,), r"\(2\.0,\)"),
        (lambda meta: (1,), "<function"),
    ],
    ids=["a number", "a list", "empty", "four numbers", "a flag", "a float", "a function"],
)
def test_a_grid_of_another_form_is_refused(accelerator, grid, shown):
    triton = pytest.importorskip("triton")

    @triton.jit
    def copy(x, y):
        pass

    with pytest.raises(
        TypeError, match=f"grid of kernel copy is a tuple of 1 to 3 integers, not {shown}"
    ):
        accelerator.launch(copy, grid)


def test_a_grid_with_a_negative_number_is_refused(accelerator):
    triton = pytest.importorskip("triton")

    @triton.jit
    def copy(x, y):
        pass

    with pytest.raises(ValueError, match=r"the grid \(2, -1\) of kernel copy has a number below 0"):
        accelerator.launch(copy, (2, -1))


def test_without_triton_the_first_launch_says_what_it_needs(no_triton):
    run = python("-c", LAUNCHED_WITHOUT_TRITON, **no_triton)
    assert run.stdout == "2.0\n", run.stderr[-2000:]
    sentence = run.stderr.splitlines()[-1].removeprefix("RuntimeError: ")
    assert sentence.startswith("the launch of kernel with a grid needs Triton, which is not inst")


@pytest.mark.deep
def test_without_triton_the_first_chapter_runs(no_triton):
    pytest.importorskip("IPython")
    run = python("-c", FIRST_CHAPTER, **no_triton)
    assert run.stdout.endswith("came to its end\n"), run.stdout[-2000:] + run.stderr[-2000:]


@pytest.mark.deep
def test_without_triton_the_katas_pass(no_triton):
    solved = ["--impl", "solutions", "-p", "no:cacheprovider", "-q"]
    katas = python("-m", "pytest", "katas", *solved, **no_triton)
    assert katas.returncode == 0, katas.stdout[-2000:]


@pytest.mark.deep(2)
@pytest.mark.parametrize(
    ("there", "needs_triton"),
    [
        ("solutions.pinned_h2d.StagingRing", "solutions.pinned_h2d.Engine"),
        ("solutions.sync_free.apply_bad_words", "solutions.sync_free.DecodeStep"),
    ],
)
def test_without_triton_a_system_says_what_it_needs(no_triton, there, needs_triton):
    imports = [
        f"from {path.rpartition('.')[0]} import {path.rpartition('.')[2]}"
        for path in (there, needs_triton)
    ]
    run = python("-c", f"{imports[0]}; print('so far')\n{imports[1]}", **no_triton)
    assert run.stdout == "so far\n", run.stderr[-2000:]
    sentence = run.stderr.splitlines()[-1].removeprefix("ImportError: ")
    assert sentence.startswith(f"{needs_triton} needs Triton, which is not installed here (")
    assert "chapter 00, the katas, timelines and sim work" in sentence


def test_a_gpu_without_triton_is_not_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delenv("DEBUBBLE_DEVICE", raising=False)
    assert choice.resolve("auto") == "sim"
    monkeypatch.setattr(choice, "_chosen", None)
    with pytest.raises(RuntimeError, match="the accelerator 'cuda' needs Triton, which is not"):
        choice.accelerator("cuda")


def test_a_numpy_that_the_interpreter_does_not_work_with_is_named(monkeypatch):
    def kernel():
        pass

    kernel.fn = kernel
    monkeypatch.setattr(triton_mode, "version", {"triton": "3.6.0", "numpy": "2.5.2"}.get)
    error = TypeError("only 0-dimensional arrays can be converted to Python scalars")
    with pytest.raises(RuntimeError, match=r"Triton 3\.6\.0 needs numpy < 2\.4 .* numpy 2\.5\.2"):
        triton_mode.explain(error, kernel)
