"""Messages on sim for learners who write CUDA code out of habit."""

import traceback

import pytest
import torch

import debubble
from debubble.exercises.running.cuda_habits import what_to_write

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("host.cuda()", "`.to(current().device)`"),
        ("host.cuda(non_blocking=True)", "`.to(current().device, non_blocking=True)`"),
        ("host.to('cuda')", "`current().device`"),
        ("torch.zeros(3, device='cuda')", "`current().device`"),
        ("torch.zeros(3, device=torch.device('cuda:0'))", "`current().device`"),
        ("torch.cuda.Stream()", "`current().stream()`"),
        ("torch.cuda.Event().record()", "`current().event()`"),
        ("torch.cuda.current_stream()", "`current().current_stream()`"),
        ("torch.cuda.synchronize()", "`current().synchronize()`"),
        ("torch.cuda.CUDAGraph()", "`with graph.capture():`"),
        ("torch.cuda.set_stream(accelerator.stream())", "`with stream:`"),
    ],
)
def test_the_line_that_runs_on_both_is_named(tmp_path, line, instead):
    if torch.cuda.is_available():
        pytest.skip("here it works")
    assert instead in said_of(tmp_path, line)


@pytest.mark.parametrize(
    "line",
    [
        "torch.accelerator.current_stream().wait_stream(accelerator.stream())",
        "torch.accelerator.synchronize()",
        "torch.Event(device=accelerator.device).record()",
        "torch.Stream(device=accelerator.device)",
    ],
)
def test_what_pytorch_has_for_every_accelerator_works(line):
    exec(line, {"torch": torch, "accelerator": debubble.accelerator("sim")})


@pytest.mark.parametrize("line", ["host.to('cdua')", "1 / 0", "host.cuda.there"])
def test_other_errors_are_left_alone(tmp_path, line):
    assert said_of(tmp_path, line) == ""


def said_of(folder, line):
    file = folder / "kata.py"
    file.write_text(f"{line}\n")
    names = {"torch": torch, "host": torch.ones(3), "accelerator": debubble.accelerator("sim")}
    with pytest.raises(Exception) as raised:
        exec(compile(file.read_text(), str(file), "exec"), names)
    frames = traceback.extract_tb(raised.value.__traceback__)
    return what_to_write(raised.value, next(f for f in frames if f.filename == str(file)))
