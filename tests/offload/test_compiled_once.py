"""The shorter launch of a kernel, tested without a GPU on a stand-in for Triton's kernel."""

from types import SimpleNamespace

import pytest

from solutions.offload.paths import compiled_once as module
from solutions.offload.paths.compiled_once import CompiledOnce, compiled_once
from solutions.offload.swap_blocks import COMPILED, _swap_blocks_kernel

STREAM = 77


class Kernel:
    """A stand-in for a Triton kernel of two arguments and two constants; it notes what is compiled
    and what is launched."""

    arg_names = ("source", "count", "WORDS", "VECTOR")

    def __init__(self) -> None:
        self.compiled: list[tuple] = []
        self.launched: list[tuple] = []

    def warmup(self, *arguments, grid, **constants):
        self.compiled.append((arguments, constants))
        return Compiled(len(self.compiled) - 1, self.launched)


class Compiled:
    """A stand-in for a compiled kernel: launched on a grid as through Triton, or directly with all
    of a launch's arguments."""

    def __init__(self, number, launched):
        self.function, self.packed_metadata = f"function {number}", f"metadata {number}"
        self.number, self.launched = number, launched

    def __getitem__(self, grid):
        return lambda *arguments: self.launched.append((self.number, "by Triton", grid, arguments))

    def run(self, x, y, z, stream, function, metadata, data, before, behind, *arguments):
        assert (stream, function, metadata) == (STREAM, self.function, self.packed_metadata)
        assert data is before is behind is None
        self.launched.append((self.number, "directly", (x, y, z), arguments))


@pytest.fixture(autouse=True)
def a_gpu(monkeypatch):
    pytest.importorskip("triton")
    active = SimpleNamespace(get_current_device=lambda: 3, get_current_stream={3: STREAM}.get)
    monkeypatch.setattr(module, "driver", SimpleNamespace(active=active))


def test_constants_stand_behind_the_arguments_and_options_nowhere():
    kernel = Kernel()
    CompiledOnce(kernel)[(5,)]("x", 3, WORDS=8, VECTOR=True, num_warps=4)
    assert kernel.compiled == [(("x", 3), {"WORDS": 8, "VECTOR": True, "num_warps": 4})]
    assert kernel.launched == [(0, "directly", (5, 1, 1), ("x", 3, 8, True))]


def test_it_is_compiled_once_for_each_kind_of_constants():
    kernel = Kernel()
    launched = CompiledOnce(kernel)
    for number, warps in ((1, 4), (2, 4), (3, 8), (4, 4)):
        launched[(number,)](number, number, WORDS=8, VECTOR=True, num_warps=warps)
    assert len(kernel.compiled) == 2
    assert [(number, grid[0], behind[0]) for number, _, grid, behind in kernel.launched] == [
        *((0, 1, 1), (0, 2, 2), (1, 3, 3), (0, 4, 4)),
    ]


@pytest.mark.parametrize("hook", ["launch_enter_hook", "launch_exit_hook"])
def test_who_wants_to_see_launches_sees_them_by_triton(monkeypatch, hook):
    kernel = Kernel()
    launched = CompiledOnce(kernel)
    launched[(1,)]("x", 3, WORDS=8, VECTOR=True)
    with monkeypatch.context() as seen:
        seen.setattr(getattr(module.knobs.runtime, hook), "calls", [print])
        launched[(1,)]("x", 3, WORDS=8, VECTOR=True)
    launched[(1,)]("x", 3, WORDS=8, VECTOR=True)
    assert [how for _, how, _, _ in kernel.launched] == ["directly", "by Triton", "directly"]


def test_what_is_interpreted_stays_as_it_is(accelerator):
    assert compiled_once(print) is print
    assert (COMPILED is _swap_blocks_kernel) == accelerator.modelled
