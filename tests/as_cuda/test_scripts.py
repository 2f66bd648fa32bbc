"""Scripts that use "cuda" in the usual ways, run unchanged on sim, and on a GPU.

The expected waits stand on the lines of `scripts/`: `# waits: a value x3`. Two things differ on a
GPU: a wait of `# waits without a line: …` has no line there, and the paragraph under `# compiles`
waits as often as the compiler likes.
"""

import subprocess
import sys
import warnings
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch.distributions import Distribution

import debubble
from debubble.detector.script import Script
from debubble.sim.as_cuda.refusing import RunsOtherwise

from .waits import expected

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


def compiles(script: Path, line: int | None) -> bool:
    """Returns True if the wait at this line of the script is in compiled code. Such a wait names
    the first line of its source, or None: then True if the script has any paragraph under `#
    compiles`."""
    paragraphs = "\n".join(script.read_text().splitlines()[:line]).split("\n\n")
    return any("\n# compiles" in f"\n{part.strip()}" for part in paragraphs[-1 if line else 0 :])


def run(script: Path) -> debubble.SyncReport:
    with debubble.find_host_syncs() as report:
        ended_by = Script.read(script).run([])
    if ended_by is not None:
        raise ended_by
    return report


@pytest.fixture
def cuda(accelerator, monkeypatch, as_a_script):
    """Runs a test with "cuda" meaning sim, or a real GPU if this is one. Restores Python's and
    PyTorch's global state afterwards."""
    # Importing PyTorch's compiler makes distributions trust their parameters.
    monkeypatch.setattr(Distribution, "_validate_args", Distribution._validate_args)
    with debubble.as_cuda() if accelerator.modelled else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
        torch.set_default_device(None)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_unchanged_and_its_waits_are_found(script, cuda, accelerator):
    report = run(script)
    found: Counter = Counter()
    for finding in report.findings:
        place = finding.source
        assert place is None or place.file == str(script), finding
        if not accelerator.modelled and compiles(script, place and place.line):
            continue
        found[place and place.line, finding.what] += finding.count
    assert found == expected(script, accelerator.modelled)


KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

x = torch.zeros(10, device="cuda")
y = torch.empty_like(x)
add_one[(triton.cdiv(10, 4),)](x, y, 10, BLOCK=4, num_warps=1)
add_one[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](y, x, 10, BLOCK=4)
assert x.sum().item() == 20  # waits: a value
"""


def test_a_kernel_of_tritons_is_launched_as_on_a_gpu(cuda, tmp_path):
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)
    report = run(script)
    assert report.timeline.counts()["kernels"] == 4, "zeros, two launches, the sum"
    assert [(f.what, f.count) for f in report.findings] == [("a value", 1)]


TUNED = """
import torch, triton
import triton.language as tl
from triton.runtime import driver

DEVICE = driver.active.get_active_torch_device()
assert driver.active.get_current_target().backend == "cuda"
assert driver.active.get_device_interface() is torch.cuda
figures = driver.active.utils.get_device_properties(DEVICE.index)
assert figures["warpSize"] == 32 and figures["multiprocessor_count"] == 132
assert triton.testing.get_dram_gbps() > 3000

@triton.autotune([triton.Config({"BLOCK": b}, num_stages=2) for b in (4, 8)], key=["n"])
@triton.jit
def scale(x, y, n, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * by.to(tl.float32), mask=at < n)

@triton.jit
def staged(x, n, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + num_stages, mask=at < n)

x = torch.ones(10, device=DEVICE)
y = torch.empty_like(x)
calls = []
def step():
    calls.append(1)
    scale[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, 10, 0.5)
ms = triton.testing.do_bench(step)
assert 0 < ms < 1 and len(calls) == 1, (ms, calls)
assert triton.testing.do_bench(step, quantiles=[0.5, 0.2, 0.8]) == [ms] * 3
cache = driver.active.get_empty_cache_for_benchmark()
assert cache.is_cuda and cache.nbytes == 256 << 20
warm = staged.warmup(y, 10, BLOCK=16, num_stages=3, num_warps=8, grid=(1,))
warm._init_handles()
assert warm.n_regs > 0 and warm.metadata.shared > 0
warm[(1, 1, 1)](y, 10, 16, 3)
staged[(1,)](y, 10, BLOCK=16, num_stages=4, num_warps=8)
assert y.tolist() == [7.5] * 10
"""


@pytest.mark.sim
def test_tritons_driver_and_its_benchmarks_answer(cuda, tmp_path):
    script = tmp_path / "tuned.py"
    script.write_text(TUNED)
    with pytest.warns(RunsOtherwise, match="modelled time"):
        run(script)


@pytest.mark.sim
def test_as_a_command_it_leaves_nothing_behind_on_stderr(tmp_path):
    """`debubble syncs --as-cuda SCRIPT` prints nothing to stderr: tensors that live until Python
    exits are freed silently."""
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.ones(3, device='cuda')\nprint(x.sum().item())\n")
    command = [sys.executable, "-m", "debubble", "syncs", "--as-cuda", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a value" in done.stdout
