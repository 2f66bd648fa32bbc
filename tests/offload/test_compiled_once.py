"""A kernel's shorter launch, tried without a GPU on what stands for Triton's."""

from solutions.offload.paths.compiled_once import CompiledOnce, compiled_once
from solutions.offload.swap_blocks import COMPILED, _swap_blocks_kernel


class Kernel:
    """A kernel of two arguments and two constants; it notes what is compiled and launched."""

    arg_names = ("source", "count", "WORDS", "VECTOR")

    def __init__(self) -> None:
        self.compiled: list[tuple] = []
        self.launched: list[tuple] = []

    def warmup(self, *arguments, grid, **constants):
        number = len(self.compiled)
        self.compiled.append((arguments, constants))
        note = lambda grid: lambda *behind: self.launched.append((number, grid, behind))
        return type("Compiled", (), {"__getitem__": lambda _, grid: note(grid)})()


def test_constants_stand_behind_the_arguments_and_options_nowhere():
    kernel = Kernel()
    CompiledOnce(kernel)[(5,)]("x", 3, WORDS=8, VECTOR=True, num_warps=4)
    assert kernel.compiled == [(("x", 3), {"WORDS": 8, "VECTOR": True, "num_warps": 4})]
    assert kernel.launched == [(0, (5, 1, 1), ("x", 3, 8, True))]


def test_it_is_compiled_once_for_each_kind_of_constants():
    kernel = Kernel()
    launched = CompiledOnce(kernel)
    for number, warps in ((1, 4), (2, 4), (3, 8), (4, 4)):
        launched[(number,)](number, number, WORDS=8, VECTOR=True, num_warps=warps)
    assert len(kernel.compiled) == 2
    assert [(number, behind[0]) for number, _, behind in kernel.launched] == [
        *((0, 1), (0, 2), (1, 3), (0, 4)),
    ]


def test_what_is_interpreted_stays_as_it_is(accelerator):
    assert compiled_once(print) is print
    assert (COMPILED is _swap_blocks_kernel) == accelerator.modelled
