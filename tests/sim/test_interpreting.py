"""Triton's interpreter: what it does once for a kernel, where a kernel may read and write, and that
a run leaves the interpreter unchanged."""

import inspect
import os

import numpy as np
import pytest
import torch

import debubble
from debubble.accelerator import launch
from debubble.sim.kernels import interpreting
from debubble.sim.kernels.illegal_access import running
from debubble.sim.kernels.shared_types import share_types
from tests.interrupted import Lines
from tests.sim.in_flight import in_flight, kinds

pytestmark = pytest.mark.sim
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def double(x):
    return x + x


@triton.jit
def doubles_kernel(x, times: tl.constexpr):
    value = tl.load(x + tl.program_id(0))
    for _ in range(times):
        value = double(value)
    tl.store(x + tl.program_id(0), value)


@triton.jit
def asserting_kernel(x):
    value = tl.load(x + tl.program_id(0))
    tl.device_assert(value > 0, "numbers must be above 0")
    tl.store(x + tl.program_id(0), -value)


@pytest.fixture
def prepared(monkeypatch):
    """Returns a list to which Triton's interpreter, from now on, adds the name of each function for
    which it prepares the language."""
    from triton.runtime import interpreter

    prepare, functions = interpreter._patch_lang, []

    def noted(function):
        functions.append(function.__name__)
        return prepare(function)

    monkeypatch.setattr(interpreter, "_patch_lang", noted)
    return functions


def test_a_function_is_prepared_once_in_each_launch(accelerator, prepared):
    x = torch.ones(3, device=accelerator.device)
    for _ in range(2):
        launch(doubles_kernel, (3,), x, times=4)
    assert x.tolist() == [256.0] * 3
    assert prepared == ["doubles_kernel", "double"] * 2


def test_a_function_of_the_language_is_replaced_once_in_each_launch(accelerator, monkeypatch):
    from triton.runtime.interpreter import _LangPatchScope as Scope

    replace, replaced = Scope.set_attr, []

    def noted(scope, owner, name, value):
        replaced.append((owner, name))
        replace(scope, owner, name, value)

    monkeypatch.setattr(Scope, "set_attr", noted)
    x, load = torch.ones(1, device=accelerator.device), tl.load
    for launches in (1, 2):
        launch(doubles_kernel, (1,), x, times=4)
        assert replaced.count((tl, "load")) == launches
        assert tl.load is load


def interrupt():
    raise KeyboardInterrupt


@triton.jit
def interrupted_kernel(x):
    tl.device_assert(tl.load(x) > 0, "numbers must be above 0")
    tl.store(x, double(tl.load(x)))
    interrupt()


def replaced():
    """Returns the state to compare before and after a run: what sim replaces in Triton's
    interpreter, what a run sets, and NumPy's error settings."""
    from triton.runtime import interpreter

    calls = type(double).__call__, interpreter.GridExecutor.__call__
    ways = interpreter.interpreter_builder.options, interpreter._interpreter
    return *calls, *ways, running.get(), interpreting.is_launch.get(), np.geterr()


@pytest.mark.parametrize("how", ["launched", "called"])
def test_a_kernel_interrupted_twice_leaves_no_state(accelerator, prepared, how):
    """A kernel that is interrupted by itself and once more at any line of sim's code leaves no
    state: the same values, and the next kernel is right."""

    def start():
        interpreting.check_runs.cache_clear()
        interpreting.prepare_once.cache_clear()
        if how == "launched":
            launch(interrupted_kernel, (1,), x)
        else:
            interrupted_kernel[1,](x)

    x = torch.ones(1, device=accelerator.device)
    launch(doubles_kernel, (1,), x, times=1)
    folders = os.path.dirname(interpreting.__file__), inspect.getfile(np.errstate)
    lines = Lines(folders=folders)
    with pytest.raises(KeyboardInterrupt), lines.traced():
        start()
    before = replaced()
    for line, number in lines.first.items():
        with (
            pytest.raises(KeyboardInterrupt),
            Lines(KeyboardInterrupt(), [number], folders).traced(),
        ):
            start()
        assert replaced() == before, line
        prepared.clear()
        y = torch.ones(1, device=accelerator.device)
        launch(doubles_kernel, (1,), y, times=2)
        assert (y.tolist(), prepared) == ([4.0], ["doubles_kernel", "double"]), line
    assert len(lines.first) > 20


def test_what_a_kernel_asserts_is_asked_and_nothing_changes_where_it_does_not_hold(accelerator):
    x = torch.tensor([1, 2, 0, 3]).to(accelerator.device)
    launch(asserting_kernel, (2,), x)
    assert x.tolist() == [-1, -2, 0, 3]
    with pytest.raises(RuntimeError, match="asserting_kernel: numbers must be above 0"):
        launch(asserting_kernel, (2,), x[1:])
    assert x.tolist() == [-1, -2, 0, 3]


def test_a_kernel_that_is_called_directly_asserts_nothing_after_a_launch_either(accelerator):
    x = torch.tensor([0])
    launch(doubles_kernel, (1,), x.to(accelerator.device), times=1)
    asserting_kernel[1,](x - 1)


def test_a_sum_beyond_32_bits_is_no_assertion(accelerator):
    x = torch.tensor([2**31 - 1], dtype=torch.int32).to(accelerator.device)
    launch(doubles_kernel, (1,), x, times=1)
    assert x.tolist() == [-2]


def test_the_language_is_searched_once_and_left_as_it_was(accelerator, monkeypatch):
    x = torch.ones(1, device=accelerator.device)
    language = dict(vars(tl)), dict(vars(tl.tensor))
    launch(doubles_kernel, (1,), x, times=1)
    monkeypatch.setattr("inspect.getmembers", lambda *searched: pytest.fail("it searches again"))
    launch(doubles_kernel, (1,), x, times=1)
    assert x.tolist() == [4.0]
    assert (dict(vars(tl)), dict(vars(tl.tensor))) == language


@pytest.mark.parametrize(
    ("triton_type", "numpy_type"),
    [
        (tl.bfloat16, "uint16"),
        (tl.block_type(tl.bfloat16, [4]), "uint16"),
        (tl.block_type(tl.int1, [4]), "bool"),
        (tl.float64, "float64"),
        (tl.pointer_type(tl.float32), "uint64"),
        (tl.block_type(tl.pointer_type(tl.int8), [2, 2]), "uint64"),
    ],
    ids=str,
)
def test_a_type_found_once_is_the_same_again(accelerator, triton_type, numpy_type):
    from triton.runtime import interpreter

    launch(doubles_kernel, (1,), torch.ones(1, device=accelerator.device), times=1)
    for _ in range(2):
        assert interpreter._get_np_dtype(triton_type) == numpy_type


def test_what_overflows_is_infinite_and_nobody_is_warned(accelerator, recwarn):
    x = torch.full((1,), 3e38, device=accelerator.device)
    launch(doubles_kernel, (1,), x, times=1)
    assert x.tolist() == [float("inf")]
    assert [warning for warning in recwarn if warning.category is RuntimeWarning] == []


@triton.jit
def taking_kernel(x, index, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + tl.load(index + i)))


@triton.jit
def putting_kernel(x, index, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + tl.load(index + i), tl.load(x + i))


@triton.jit
def adding_kernel(x, index, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(y + tl.load(index + i), tl.load(x + i))


@triton.jit
def exchanging_kernel(x, index, y, N: tl.constexpr):
    tl.atomic_cas(y + tl.load(index + 2), 0, 1)


@triton.jit
def following_kernel(address, y):
    tl.store(y, tl.load(tl.load(address).to(tl.pointer_type(tl.int32))))


ASTRAY = [-(10**9), 10**9, 2**61 - 5, 6510615555426900570]
"""Offsets from a tensor's start, in int32 elements: far below it, far above it, half of all
addresses away, and the poison that sim writes to freed int64 memory."""


def launched(kernel, x, index, y):
    launch(kernel, (1,), x, index, y, N=4)


def called(kernel, x, index, y):
    kernel[(1,)](x, index, y, N=4)


@pytest.mark.parametrize("how", [launched, called])
@pytest.mark.parametrize("element", ASTRAY)
@pytest.mark.parametrize(
    ("kernel", "does"),
    [
        (taking_kernel, "reads"),
        (putting_kernel, "writes"),
        (adding_kernel, "writes"),
        (exchanging_kernel, "writes"),
    ],
    ids=["load", "store", "atomic_add", "atomic_cas"],
)
def test_an_address_astray_is_an_illegal_memory_access(accelerator, how, kernel, does, element):
    x, y = (torch.zeros(8, dtype=torch.int32, device=accelerator.device) for _ in range(2))
    launched(taking_kernel, x, torch.arange(4).to(accelerator.device), y)
    index = torch.tensor([0, 1, element, 2]).to(accelerator.device)
    message = rf"illegal memory access .*: {kernel.fn.__name__}, launched at .*, {does} 4 bytes at"
    with pytest.raises(RuntimeError, match=message):
        how(kernel, x, index, y)


def test_lanes_that_a_mask_leaves_out_may_point_anywhere(accelerator):
    x = torch.arange(2.0, device=accelerator.device)
    launch(masked_kernel, (1,), x, 2, N=4)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("slot", [1, 2**31 - 1, -(2**31)])
def test_a_condition_on_the_program_may_leave_out_all_lanes(accelerator, slot):
    """A scalar condition can mask all lanes of a load: then nothing is read, as on a GPU, even if
    the address is far outside of the tensor."""
    x = torch.arange(6.0, device=accelerator.device).view(3, 2)
    y = torch.full((2,), 7.0, device=accelerator.device)
    launch(row_kernel, (1,), x, torch.tensor([slot]).to(accelerator.device), len(x), y, N=2)
    assert y.tolist() == ([2.0, 3.0] if slot == 1 else [0.0, 0.0])


@triton.jit
def row_kernel(x, slots, num_slots, y, N: tl.constexpr):
    slot = tl.load(slots).to(tl.int64)
    exists = (slot >= 0) & (slot < num_slots)
    lane = tl.arange(0, N)
    tl.store(y + lane, tl.load(x + slot * N + lane, mask=exists, other=0.0))


@triton.jit
def masked_kernel(x, length, N: tl.constexpr):
    i = tl.arange(0, N).to(tl.int64)
    at = x + tl.where(i < length, i, 1 << 40)
    tl.store(at, tl.load(at, mask=i < length) + 1, mask=i < length)


@pytest.mark.parametrize("pinned", [False, True], ids=["device", "pinned"])
def test_memory_reached_by_address_is_known_until_it_is_freed(accelerator, pinned):
    device = accelerator.device
    held = torch.full((4,), 7, dtype=torch.int32)
    held = held.pin_memory() if pinned else held.to(device)
    address, y = torch.tensor([held.data_ptr()]).to(device), torch.zeros(1, device=device)
    launch(following_kernel, (1,), address, y)
    assert y.tolist() == [7]
    graph = accelerator.graph()
    with graph.capture():
        launch(following_kernel, (1,), address, y)  # captured here
    del held  # freed here
    with pytest.raises(RuntimeError, match=r"; what lay there was freed at .*# freed here"):
        launch(following_kernel, (1,), address, y)
    with pytest.raises(RuntimeError, match=r"# captured here.*# freed here"):
        graph.replay()


def test_pageable_memory_is_no_memory_of_the_device(accelerator):
    plain = torch.zeros(4, dtype=torch.int32)
    address = torch.tensor([plain.data_ptr()]).to(accelerator.device)
    # The host tensor may lie where memory of the device was.
    why = "no memory of the device lies there|what lay there was freed at"
    with pytest.raises(RuntimeError, match=f"illegal memory access.*{why}"):
        launch(following_kernel, (1,), address, torch.zeros(1, device=accelerator.device))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_a_graph_whose_indices_were_freed_names_where_and_goes_nowhere(accelerator, dtype):
    """A replay whose captured indices were freed raises RuntimeError that names both lines, and
    reads nothing: the freed memory holds poison, which leads out of all memory."""
    device = accelerator.device
    x, y = torch.zeros(8, device=device), torch.zeros(4, device=device)
    index = torch.arange(4, dtype=dtype, device=device)
    graph = accelerator.graph()
    with graph.capture():
        launch(taking_kernel, (1,), x, index, y, N=4)  # captured here
    graph.replay()
    del index  # freed here
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(RuntimeError, match=r"illegal memory access.*captured here.*freed here"),
    ):
        graph.replay()
    assert kinds(timeline) == ["graph_input_freed"]


def test_indices_overwritten_in_flight_are_a_hazard_and_no_error(accelerator):
    """Indices that are overwritten while their upload is in flight are reported as a race, and
    raise no error when the work is run again with bytes that lead out of all memory."""
    device = accelerator.device
    x, y = torch.ones(8, device=device), torch.zeros(4, device=device)
    staged = torch.arange(4).pin_memory()
    index = torch.zeros(4, dtype=torch.int64, device=device)
    with in_flight(accelerator, 1) as timeline:
        index.copy_(staged, non_blocking=True)
        launch(taking_kernel, (1,), x, index, y, N=4)
        staged.fill_(2**50)
    assert kinds(timeline) == ["overwritten_in_flight"]


@pytest.mark.parametrize("shape", [[4], [1, 8], [8, 1], [2, 4, 2]])
def test_a_type_that_shares_its_parts_is_the_one_that_triton_makes(shape):
    share_types()
    made = tl.block_type.__init__.__wrapped__
    for element in (tl.float32, tl.int64, tl.pointer_type(tl.float32)):
        own = object.__new__(tl.block_type)
        made(own, element, shape)
        for of_sizes in (shape, [tl.constexpr(size) for size in shape]):
            shared = tl.block_type(element, of_sizes)
            assert vars(shared) == vars(own) and shared == own and str(shared) == str(own)


@pytest.mark.parametrize("shape", [[], [4], [2, 8]])
def test_a_tensor_that_shares_its_shape_is_the_one_that_triton_makes(shape):
    share_types()
    for element in (tl.float32, tl.int64):
        kind = tl.block_type(element, shape) if shape else element
        own = object.__new__(tl.tensor)
        tl.tensor.__init__.__wrapped__(own, "its handle", kind)
        for handle in ("another one", "its handle"):
            shared = tl.tensor(handle, kind)
        assert vars(shared).keys() == vars(own).keys()
        assert (shared.handle, shared.type, shared.dtype) == ("its handle", kind, element)
        assert [size.value for size in shared.shape] == shape
        assert shared.numel.value == own.numel.value
