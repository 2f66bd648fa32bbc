"""The choice of an accelerator, and the error if there is none."""

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import debubble
from debubble.accelerator import current, launch
from debubble.contract.protocol import Accelerator, Event, Graph, Stream


def test_a_process_has_one_accelerator(accelerator):
    assert debubble.accelerator() is accelerator
    assert current() is accelerator


def test_every_public_name_is_found_on_the_package_however_it_is_imported(accelerator):
    """`debubble.accelerator` can be called, and also has every public name of the package
    debubble/accelerator as an attribute."""
    package = sys.modules["debubble.accelerator"]
    assert debubble.accelerator is package.accelerator
    assert debubble.accelerator.current() is accelerator
    for name in package.__all__:
        assert getattr(debubble.accelerator, name) is getattr(package, name), name


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'smi' is unknown.*auto, cuda, sim.*did you mean 'sim'"):
        debubble.accelerator("smi")


def test_an_unknown_name_in_the_environment_is_named(monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", "tpu")
    with pytest.raises(ValueError, match=r"DEBUBBLE_DEVICE 'tpu' is unknown"):
        debubble.accelerator()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_cuda_without_a_gpu_says_what_to_do():
    code = "import debubble; debubble.accelerator('cuda')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "PyTorch finds no GPU here: use accelerator('sim')" in run.stderr.splitlines()[-1]


def test_the_other_accelerator_is_refused_in_one_process(accelerator):
    other = {"sim": "cuda", "cuda": "sim"}[accelerator.name]
    with pytest.raises(RuntimeError, match=f"uses '{accelerator.name}' already.*DEBUBBLE_DEVICE"):
        debubble.accelerator(other)


def test_a_plain_function_is_one_launch(accelerator):
    x = torch.ones(4, device=accelerator.device)

    def twice(tensor):
        return torch.add(tensor, tensor)

    with debubble.record(accelerator) as timeline:
        y = launch(twice, None, x)
    assert timeline.counts()["kernels"] == 1
    assert y.device == x.device
    assert y.tolist() == [2.0] * 4


def test_an_empty_grid_launches_nothing(accelerator):
    class Kernel:
        def __getitem__(self, grid):
            raise AssertionError("it ran")

    x = torch.ones(4, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        launch(Kernel(), (0, 3), x)
    assert timeline.counts()["kernels"] == 0


@pytest.mark.parametrize("grid", [(1,), (0, 3)])
def test_a_plain_function_takes_no_grid(accelerator, grid):
    def twice(tensor):
        return tensor + tensor

    x = torch.ones(4, device=accelerator.device)
    for either in (launch, accelerator.launch):
        with pytest.raises(TypeError, match="twice is no Triton kernel, so it takes no grid: dec"):
            either(twice, grid, x)


def test_what_is_no_function_is_not_launched(accelerator):
    with pytest.raises(TypeError, match="3 can't be launched so: give a Triton kernel and a grid"):
        launch(3, None)


def test_a_negative_sleep_is_refused(accelerator):
    with pytest.raises(ValueError, match="not -1"):
        accelerator.sleep(-1)


def test_an_error_of_a_plain_function_arrives_as_it_is(accelerator):
    array = np.array([1, 2])
    with pytest.raises(TypeError) as by_itself:
        int(array)
    with pytest.raises(TypeError, match=re.escape(str(by_itself.value))):
        launch(lambda: int(array), None)


def test_help_has_a_text_for_each_call_of_an_accelerator_its_streams_and_events(accelerator):
    stream, event = accelerator.stream(), accelerator.event()
    kinds = {Accelerator: accelerator, Stream: stream, Event: event, Graph: accelerator.graph()}
    for protocol, made in kinds.items():
        calls = [name for name, call in vars(protocol).items() if inspect.isfunction(call)]
        without = [name for name in calls if not inspect.getdoc(getattr(made, name))]
        assert [name for name in without if not name.startswith("_")] == []
