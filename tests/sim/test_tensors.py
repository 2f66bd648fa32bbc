"""A tensor on sim behaves as one on CUDA does."""

import contextlib
import copy
import os
import pickle
import subprocess
import sys
import threading

import pytest
import torch

import debubble
from debubble.sim.memory import pinning
from tests.interrupted import Lines

pytestmark = pytest.mark.sim


@pytest.fixture
def x(accelerator):
    return torch.arange(20.0, device=accelerator.device).view(4, 5)


def test_it_says_where_it_is(x):
    assert x.device == torch.device("sim", 0)
    assert not x.is_cpu
    assert not x.is_cuda


def test_values_come_back(x):
    assert x.cpu().tolist() == x.tolist() == torch.arange(20.0).view(4, 5).tolist()
    assert x[1, 2].item() == 7.0
    assert f"{x[1, 2]:.1f}" == "7.0"


def test_it_prints_as_a_tensor(x):
    assert repr(x[0]) == "tensor([0., 1., 2., 3., 4.], device='sim:0')"
    first, second = repr(x[:2, :2]).splitlines()
    assert first.index("[0") == second.index("[5")


def test_numpy_is_refused_as_on_cuda(x):
    with pytest.raises(TypeError, match="can't convert sim:0 device type tensor to numpy"):
        x.numpy()


def test_a_cpu_tensor_beside_it_is_refused(x):
    with pytest.raises(RuntimeError, match=r"one device.*sim:0 and cpu.*\(4, 5\)"):
        x + torch.ones(4, 5)


@pytest.mark.parametrize(
    "write",
    [
        lambda total, loss: total.__iadd__(loss),
        lambda total, loss: total.mul_(loss),
        lambda total, loss: total.addcmul_(loss, loss),
        lambda total, loss: total.lerp_(loss, loss),
        lambda total, loss: total.eq_(loss),
        lambda total, loss: total.clamp_(min=loss),
        lambda total, loss: torch.add(loss, loss, out=total),
        lambda total, loss: torch.sum(loss, 0, out=total),
        lambda total, loss: torch._foreach_add_([total], [loss]),
    ],
)
def test_a_cpu_number_is_not_written_from_the_device(write, accelerator):
    """An in-place operator on a CPU tensor without dimensions raises RuntimeError if an argument is
    on the device: such a tensor can only be read, as on CUDA (pytorch#40986)."""
    total, loss = torch.tensor(1.0), torch.ones((), device=accelerator.device)
    with pytest.raises(RuntimeError, match=r"all tensors on one device.* of shape \(\) on cpu"):
        write(total, loss)
    assert total == 1


def asking_operators():
    """Yields all operators of PyTorch that return no tensor; None for names that can't be found."""
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten" and hasattr(torch.ops.aten, packet):
            yield getattr(getattr(torch.ops.aten, packet), overload or "default", None)


READS = {
    "_choose_qparams_per_tensor",
    "_local_scalar_dense",
    "_nested_tensor_from_mask_left_aligned",
    "allclose",
    "equal",
    "is_nonzero",
    "item",
}
"""The names of operators that return no tensor and read a value from the device."""


def test_a_question_about_a_tensor_that_reads_no_value_launches_nothing(accelerator):
    x = torch.ones(1, 1, 4, 4, device=accelerator.device)
    asked = []
    for operator in filter(None, asking_operators()):
        arguments, returns = operator._schema.arguments, operator._schema.returns
        kinds = {str(argument.type) for argument in arguments if not argument.has_default_value()}
        answers = returns and not any("Tensor" in str(r.type) for r in returns)
        if not answers or kinds != {"Tensor"} or operator.overloadpacket.__name__ in READS:
            continue
        given = [x for argument in arguments if not argument.has_default_value()]
        with debubble.record(accelerator) as timeline:
            try:
                operator(*given)
            except (RuntimeError, NotImplementedError):
                continue  # The operator is for sparse, quantised or nested tensors.
        assert not any(timeline.counts().values()), operator
        asked.append(operator.overloadpacket.__name__)
    assert {"is_set_to", "is_same_size", "_fused_sdp_choice", "dense_dim"} <= set(asked)


def test_an_operator_that_writes_and_returns_nothing_launches_its_kernel(accelerator):
    values = [torch.ones(4, device=accelerator.device) for _ in range(2)]
    for write in (torch._foreach_add_, torch._foreach_mul_, torch._foreach_div_):
        with debubble.record(accelerator) as timeline:
            write(values, 2.0)
        assert timeline.counts()["kernels"] >= 1, write


@pytest.mark.parametrize("first", ["register", "unregister", "pin", "free"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_pinned_memory_that_is_interrupted_can_be_used_again(accelerator, first):
    """Memory can be pinned and unpinned again after Ctrl-C at any line of these calls, and after a
    second one when Python exits."""
    tensor = torch.zeros(1024)
    address, nbytes = tensor.data_ptr(), tensor.nbytes

    def start():
        if first == "unregister":
            pinning.register(address, nbytes)
        if first == "free":
            held.append(pinning.pinned_copy(tensor))
        with lines.traced():
            if first == "free":
                held.clear()
            elif first == "pin":
                held.append(pinning.pinned_copy(tensor))
            elif first == "register":
                pinning.register(address, nbytes)
            else:
                pinning.unregister(address)

    before = len(pinning._ranges), len(pinning._blocks), len(pinning._registered)
    number, lines, held = 0, Lines(), []
    while number <= lines.count:
        number += 1
        lines = Lines(KeyboardInterrupt(), [number], (pinning.__file__,))
        with contextlib.suppress(KeyboardInterrupt):
            start()
        held.clear()
        lines.error = None  # The error's traceback holds what was about to be pinned.
        if not tensor.is_pinned():
            pinning.register(address, nbytes)
        pinning.unregister(address)
        assert not tensor.is_pinned()
        assert (len(pinning._ranges), len(pinning._blocks), len(pinning._registered)) == before
    assert number > 5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64])
def test_a_python_number_is_as_exact_as_on_the_cpu(accelerator, dtype):
    on_cpu = torch.tensor([1, 3], dtype=dtype)
    expected, actual = on_cpu * 0.1, on_cpu.to(accelerator.device) * 0.1
    assert actual.dtype == expected.dtype
    assert actual.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_large_product_of_halves_is_rounded_once(accelerator, dtype):
    a, b, bias = (torch.randn(shape).to(dtype) for shape in ((3, 512), (512, 300), (300,)))
    exact = a.float() @ b.float()
    on_sim = [tensor.to(accelerator.device) for tensor in (a, b, bias)]
    assert torch.equal((on_sim[0] @ on_sim[1]).cpu(), exact.to(dtype))
    with_bias = torch.nn.functional.linear(on_sim[0], on_sim[1].T.contiguous(), on_sim[2])
    expected = torch.addmm(*(tensor.float() for tensor in (bias, a, b))).to(dtype)
    torch.testing.assert_close(with_bias.cpu(), expected)


def test_a_large_product_of_two_types_is_refused_as_on_the_cpu(accelerator):
    halves = torch.zeros(512, 512, dtype=torch.bfloat16, device=accelerator.device)
    for other in (halves.float(), halves.half()):
        with pytest.raises(RuntimeError, match="same dtype"):
            halves @ other
        with pytest.raises(RuntimeError, match="same dtype"):
            other @ halves


def test_views_share_memory_and_address(x):
    row = x[1]
    row.zero_()
    assert x[1].tolist() == [0.0] * 5
    assert row.data_ptr() == x.data_ptr() + 5 * 4
    assert x.view(20).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_inference_mode_changes_nothing(x, accelerator):
    with torch.inference_mode(), debubble.record(accelerator) as timeline:
        y = torch.ones(4, 5).to(accelerator.device) + x.reshape(4, 5)
        assert y.cpu()[0].tolist() == y[0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert timeline.counts()["d2h"] == 2
    assert timeline.counts()["kernels"] == 1


def test_copies_of_the_object_are_on_sim(x):
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.device == x.device
        assert other.tolist() == x.tolist()
        assert other.data_ptr() != x.data_ptr()


def test_pinned_memory_is_known_as_such():
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.ones(3).pin_memory()[1:].is_pinned()
    assert torch.zeros(3, 4, pin_memory=True).t().is_pinned()
    assert torch.from_numpy(torch.zeros(3, pin_memory=True).numpy()).is_pinned()
    assert not torch.empty(3).is_pinned()
    assert not torch.zeros(3, pin_memory=True).clone().is_pinned()


def test_pageable_memory_never_takes_a_pinned_address():
    address = torch.zeros(1000, pin_memory=True).data_ptr()
    later = [torch.zeros(1000) for _ in range(50)]
    assert not any(tensor.is_pinned() for tensor in later)
    assert address not in [tensor.data_ptr() for tensor in later]


def test_another_thread_can_pin_and_compute(accelerator):
    seen = []

    def work():
        pinned = torch.ones(3, pin_memory=True)
        seen.append((pinned.is_pinned(), (pinned.to(accelerator.device) + 1).tolist()))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [(True, [2.0] * 3)]


def test_a_device_tensor_can_not_be_pinned(x):
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.pin_memory()


def test_pinning_can_be_impossible():
    """Programs work without pinned memory, as on WSL, by pageable copies: `pin_memory` of the
    accelerator is False, and pinning a tensor raises RuntimeError."""
    code = """
import debubble, torch
gpu = debubble.accelerator("sim")
host = torch.ones(3, pin_memory=gpu.pin_memory)
with debubble.record(gpu) as timeline:
    assert host.to(gpu.device, non_blocking=True).tolist() == [1.0] * 3
print(gpu.pin_memory, timeline.counts()["h2d_pageable"])
try:
    torch.ones(3).pin_memory()
except RuntimeError as error:
    print(error)
"""
    environment = os.environ | {"DEBUBBLE_PINNING": "off", "DEBUBBLE_DEVICE": "sim"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    first, second = run.stdout.splitlines()
    assert first == "False 1"
    assert "can't be pinned here" in second


def test_an_operator_that_is_recorded_knows_its_name(x):
    accelerator = debubble.accelerator()
    with debubble.record(accelerator) as timeline:
        x.softmax(-1)
    (kernel,) = [event for event in timeline.events if event.kind == "kernel"]
    assert "softmax" in kernel.name


@pytest.mark.parametrize("made_inside", [False, True])
def test_views_work_in_inference_mode(accelerator, made_inside):
    with torch.inference_mode(made_inside):
        x = torch.arange(6.0, device=accelerator.device).reshape(2, 3)
    with torch.inference_mode():
        x[0].add_(1)
        x[1, 2] = 9.0
        first, second = x.split(1)
        assert x.t().tolist() == [[1.0, 3.0], [2.0, 4.0], [3.0, 9.0]]
        assert (first + second).tolist() == [[4.0, 6.0, 12.0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradients_of_halves_are_added_up_in_fp32(accelerator, dtype):
    """Gradients of float16 and bfloat16 parameters are added up in fp32, as by CUDA's kernels, so
    only one rounding is left."""
    torch.manual_seed(0)
    x = torch.randn(1024, 8, dtype=dtype)
    exact, last = x.double(), 2**-7 if dtype == torch.bfloat16 else 2**-10
    norm = torch.nn.LayerNorm(8, dtype=dtype).to(accelerator.device)
    table = torch.nn.Embedding(1, 8, dtype=dtype).to(accelerator.device)
    on_device = x.to(accelerator.device)
    norm(on_device).backward(on_device)
    table(torch.zeros(1024, dtype=torch.int64).to(accelerator.device)).backward(on_device)
    spread = exact.var(1, correction=0, keepdim=True) + norm.eps
    normed = (exact - exact.mean(1, keepdim=True)) / spread.sqrt()
    expected = exact.sum(0)
    for got, want in (
        (norm.bias.grad, expected),
        (table.weight.grad[0], expected),
        (norm.weight.grad, (exact * normed).sum(0)),
    ):
        assert got.dtype == dtype
        assert (got.cpu().double() - want).abs().max() <= last * want.abs().max()
