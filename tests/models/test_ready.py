"""The time until a checkpoint is served: what its start imports, and what it compiles."""

import json
import os
import subprocess
import sys

import pytest

from solutions.models.checkpoints.random_folder import SHAPES, write_folder

START = """
import json, sys
from solutions.engine.requests.request import SamplingParams
from solutions.models.pretrained import from_pretrained

compiled = []
if "triton.knobs" in sys.modules or sys.argv[2] == "cuda":
    from triton import knobs

    def note(*, src, cache_hit, **rest):
        compiled.extend([] if cache_hit else [src.name])

    knobs.compilation.listener = note
engine = from_pretrained(sys.argv[1], max_num_seqs=2)
engine.generate([[5, 6, 7], list(range(40))], SamplingParams(max_tokens=4))
print(json.dumps({"compiled": compiled, "compiler": "torch._dynamo" in sys.modules}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(SHAPES["tiny"], tmp_path_factory.mktemp("ready") / "tiny")


def start(folder, device: str, **environment: str) -> dict:
    """Serves two prompts in a new process. Returns the Triton kernels that it compiled, and whether
    it imported PyTorch's compiler."""
    run = subprocess.run(
        [sys.executable, "-c", START, str(folder), device],
        env=os.environ | {"DEBUBBLE_DEVICE": device} | environment,
        capture_output=True,
        text=True,
    )
    assert not run.returncode, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.sim
def test_sim_serves_without_importing_pytorchs_compiler(folder):
    """A model without memory, which a checkpoint is planned with, and all of a step leave out the
    operators for which PyTorch imports its compiler: seconds, where nothing is compiled."""
    assert start(folder, "sim")["compiler"] is False


@pytest.mark.gpu
def test_a_second_start_compiles_no_kernel_again(folder, tmp_path):
    """Kernels that a first start has compiled after FlexAttention are found by the second."""
    caches = {
        "TRITON_HOME": str(tmp_path / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
    }
    first, second = (start(folder, "cuda", **caches)["compiled"] for _ in range(2))
    assert "choose_kernel" in first
    assert second == []
