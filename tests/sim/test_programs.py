"""Users' programs give the same results on sim as on the CPU, recorded or not."""

import copy
import inspect
import pickle
from contextlib import nullcontext

import pytest
import torch

import debubble
from debubble.accelerator import CaptureError

from .programs import arithmetic, conversions, gradients, indexing, modules, serving, views

pytestmark = [pytest.mark.sim, pytest.mark.filterwarnings("ignore")]

PROGRAMS = [
    program
    for module in (views, indexing, arithmetic, conversions, serving, modules, gradients)
    for _, program in inspect.getmembers(module, inspect.isfunction)
    if program.__module__ == module.__name__
]


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_what_it_gives_on_the_cpu(accelerator, program, recorded):
    expected = program("cpu")
    with debubble.record(accelerator) if recorded else nullcontext():
        got = program("sim")
    expect_same(got, expected)


def expect_same(got, expected, where="result"):
    """Checks values, shapes, dtypes and strides of `got`, in nested results too, and that the
    metadata of tensors on sim matches their data."""
    if isinstance(expected, torch.Tensor):
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), where
        if got.device.type == "sim":
            data = got.data_on_cpu
            assert got.stride() == expected.stride(), where
            assert (got.shape, got.stride(), got.storage_offset()) == (
                data.shape,
                data.stride(),
                data.storage_offset(),
            ), where
        torch.testing.assert_close(got.detach().cpu(), expected.detach(), equal_nan=True)
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), where
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            expect_same(a, b, f"{where}[{number}]")
    elif isinstance(expected, dict):
        expect_same(list(got.items()), list(expected.items()), where)
    else:
        assert got == expected or got != got, where


@pytest.mark.parametrize("index", [[0, 1], torch.tensor([0, 1])], ids=["list", "CPU tensor"])
def test_values_for_an_index_must_be_on_the_device(accelerator, index):
    x = torch.zeros(3, 2, device=accelerator.device)
    with pytest.raises(RuntimeError, match=r"one device.*\(2, 2\)"):
        x[index] = torch.ones(2, 2)


def test_a_list_can_not_be_assigned(accelerator):
    x = torch.zeros(3, device=accelerator.device)
    with pytest.raises(TypeError, match="can't assign a list to a tensor"):
        x[0:2] = [1.0, 2.0]


def test_data_of_the_cpu_is_no_data_of_the_device(accelerator):
    x = torch.zeros(3, device=accelerator.device)
    with pytest.raises(RuntimeError, match="can't take its data from one on cpu"):
        x.data = torch.ones(3)


def test_tensors_of_the_cpu_have_forward_derivatives_beside_sim():
    x = torch.rand(3)
    value, derivative = torch.func.jvp(torch.sin, (x,), (torch.ones(3),))
    assert torch.equal(value, x.sin())
    torch.testing.assert_close(derivative, x.cos())


def test_a_script_of_pytorch_may_make_tensors_beside_sim():
    def made(x):
        return torch.zeros([2]) + torch.ones_like(x) + torch.full([2], 3.0)

    assert torch.jit.script(made)(torch.rand(2)).tolist() == [4.0, 4.0]


def test_a_launched_function_that_waits_for_gradients_is_refused(accelerator):
    w = torch.ones(3, device=accelerator.device, requires_grad=True)

    def train(x):
        (w * 2).sum().backward()
        return x

    sentence = r"call it without launch, at test_programs\.py:\d+: \(w \* 2\)\.sum\(\)\.backward"
    with pytest.raises(RuntimeError, match=sentence):
        accelerator.launch(train, None, torch.ones(3, device=accelerator.device))
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0] * 3


def test_a_wait_of_a_backward_pass_in_a_capture_is_told_with_its_line(accelerator):
    x = torch.ones(3, device=accelerator.device, requires_grad=True)
    y = x[x > 0].sum()
    sentence = r"for the device at test_programs\.py:\d+: y\.backward"
    with pytest.raises(CaptureError, match=sentence), accelerator.graph().capture():
        y.backward()


def test_an_error_in_a_hook_reaches_who_began_the_backward_pass(accelerator):
    """An error in a gradient hook is raised by backward() with its cause and its line, instead of
    ending the process. The next backward pass works."""
    x = torch.ones(3, device=accelerator.device, requires_grad=True)
    y = x * 2

    def fail(gradient):
        raise ValueError("not this one") from KeyError("the cause")

    y.register_hook(fail)
    with pytest.raises(ValueError, match="not this one") as caught:
        y.sum().backward()
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.traceback[-1].name == "fail"
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.float32])
def test_a_histogram_of_integers_is_counted(accelerator, dtype):
    """torch.histc counts integers on sim, as CUDA does and the CPU does not. MoE layers of
    transformers count their tokens so."""
    experts = torch.tensor([0, 1, 1, 3, 9]).to(accelerator.device, dtype)
    counted = torch.histc(experts, bins=4, min=0, max=3)
    assert (counted.dtype, counted.tolist()) == (dtype, [1, 2, 0, 1])
    assert torch.histc(experts, bins=3).tolist() == [3, 1, 1]
    assert torch.histc(experts[1:3], bins=2).tolist() == [0, 2]


def test_a_histogram_of_integers_is_computed_in_int64(accelerator):
    zeros = torch.zeros(3, dtype=torch.uint8, device=accelerator.device)
    assert torch.histc(zeros, bins=2).tolist() == [0, 3]
    assert torch.histc(zeros.to(torch.int8), bins=2, max=1000).tolist() == [3, 0]
    out = torch.empty(0, dtype=torch.uint8, device=accelerator.device)
    assert torch.histc(zeros, bins=2, out=out) is out
    assert out.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"bins": 4, "min": 5, "max": 2}, "max must be larger than min"),
        ({"bins": 0}, "bins must be > 0, but got 0"),
        ({"bins": 2, "max": float("inf")}, "is not finite"),
    ],
    ids=["limits", "bins", "infinite"],
)
def test_a_histogram_of_integers_refuses_what_one_of_floats_does(accelerator, limits, words):
    for dtype in (torch.float32, torch.int64):
        numbers = torch.ones(3, dtype=dtype, device=accelerator.device)
        with pytest.raises(RuntimeError, match=words):
            torch.histc(numbers, **limits)


def test_a_histogram_of_flags_is_refused(accelerator):
    flags = torch.ones(3, dtype=torch.bool, device=accelerator.device)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.histc(flags, bins=2)


PRODUCTS_OF_CUDA = {
    "a @ a": "addmm_cuda",
    "F.linear(a, a)": "addmm_cuda",
    "torch.addmm(a, a, a)": "addmm_cuda",
    "a[None] @ a[None]": "baddbmm_cuda",
    "a @ a[0]": "addmv_impl_cuda",
    "a[0] @ a[0]": "dot",
    "torch.addbmm(a, a[None], a[None])": "addmm_cuda",
    "F.conv1d(a[None], a[None])": "slow_conv2d_cuda",
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
@pytest.mark.parametrize("product", PRODUCTS_OF_CUDA)
def test_a_product_of_integers_is_refused_as_on_cuda(accelerator, product, dtype):
    a = torch.ones(2, 2, dtype=dtype, device=accelerator.device)
    said = f'"{PRODUCTS_OF_CUDA[product]}" not implemented for'
    with pytest.raises(NotImplementedError, match=said):
        eval(product, {"a": a, "F": torch.nn.functional, "torch": torch})


@pytest.mark.parametrize("inverse", [torch.linalg.pinv, torch.pinverse])
def test_what_is_marked_as_conjugated_is_so_inside_of_an_operator(accelerator, inverse):
    """Complex matrices have the CPU's pseudoinverse on sim, although PyTorch decomposes products
    with conjugated factors before sim sees them."""
    a = torch.randn(3, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(inverse(a.to(accelerator.device)).cpu(), inverse(a))


def test_one_factor_of_eight_bits_must_have_the_longer_mantissa(accelerator):
    short, long, one = (
        torch.ones(16, 16, device=accelerator.device).to(dtype)
        for dtype in (torch.float8_e5m2, torch.float8_e4m3fn, torch.float32)
    )
    scales = one[0, :1], one[0, :1]
    torch._scaled_mm(short, long.t(), *scales)
    with pytest.raises(RuntimeError, match="two Float8_e5m2 matrices"):
        torch._scaled_mm(short, short.t(), *scales)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, g: torch.rand(2, device=x.device, generator=g),
        lambda x, g: torch.randperm(3, device=x.device, generator=g),
        lambda x, g: torch.multinomial(x, 1, generator=g),
        lambda x, g: x.normal_(generator=g),
        lambda x, g: x.bernoulli_(0.5, generator=g),
    ],
    ids=["rand", "randperm", "multinomial", "normal_", "bernoulli_"],
)
def test_a_generator_of_the_cpu_draws_nothing_for_the_device(accelerator, draw):
    x = torch.ones(3, device=accelerator.device)
    with pytest.raises(RuntimeError, match="'sim' device type for generator but found 'cpu'"):
        draw(x, torch.Generator())
    assert x.tolist() == [1.0] * 3
    draw(x, torch.Generator(accelerator.device))


@pytest.mark.parametrize("tolerance", [{}, {"tol": 0.5}, {"atol": 0.5}, {"tol": torch.tensor(0.5)}])
def test_a_rank_is_written_where_it_is_asked_for(accelerator, tolerance):
    out = torch.full((), 77, device=accelerator.device)
    matrix = torch.eye(3, device=accelerator.device)
    options = {
        name: value.to(accelerator.device) if isinstance(value, torch.Tensor) else value
        for name, value in tolerance.items()
    }
    assert torch.linalg.matrix_rank(matrix, out=out, **options) is out
    assert out.item() == 3
    several = torch.empty(0, dtype=torch.int64, device=accelerator.device)
    torch.linalg.matrix_rank(torch.stack([matrix, 0 * matrix]), out=several, **options)
    assert several.tolist() == [3, 0]


OPTIMIZERS = {
    "AdamW": torch.optim.AdamW,
    "SGD": torch.optim.SGD,
    "RMSprop": torch.optim.RMSprop,
    "Adagrad": torch.optim.Adagrad,
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_optimizer_takes_all_parameters_at_once_by_default(accelerator, optimizer):
    """An optimizer's step takes as many kernels for eight layers as for one, so it updates all
    parameters at once: PyTorch decides so by the class of a parameter, as on CUDA."""

    def kernels_of_a_step(layers, **options):
        model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(layers)))
        chosen = optimizer(model.to(accelerator.device).parameters(), lr=0.1, **options)
        for _ in range(2):
            model(torch.rand(2, 8).to(accelerator.device)).sum().backward()
            with debubble.record(accelerator) as timeline:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                chosen.step()
        return timeline.counts()["kernels"]

    assert kernels_of_a_step(8) == kernels_of_a_step(1) == kernels_of_a_step(8, foreach=True)


def test_a_file_is_loaded_onto_the_device_by_blocking_copies(accelerator, tmp_path):
    torch.save({"a": torch.ones(2, 3)}, tmp_path / "weights.pt")
    with debubble.record(accelerator) as timeline:
        loaded = torch.load(tmp_path / "weights.pt", map_location=accelerator.device)
    assert loaded["a"].device == accelerator.device
    assert loaded["a"].tolist() == [[1.0] * 3] * 2
    assert timeline.counts()["h2d_pageable"] == timeline.counts()["host_syncs"] == 1


def test_a_generator_says_where_it_is(accelerator):
    generator = torch.Generator(device=accelerator.device)
    assert generator.device == accelerator.device
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device == torch.device("cpu")


@pytest.mark.parametrize(
    "again",
    [lambda g: g.clone_state(), copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))],
    ids=["clone_state", "deepcopy", "pickle"],
)
def test_a_copy_of_a_generator_draws_the_same_for_the_device(accelerator, again):
    generator = torch.Generator(accelerator.device).manual_seed(3)
    twin = again(generator)
    assert twin.device == accelerator.device
    first, second = (torch.rand(2, device="sim", generator=g).tolist() for g in (generator, twin))
    assert first == second
    assert again(torch.Generator()).device == torch.device("cpu")


def test_an_event_that_was_never_recorded_is_complete(accelerator):
    event = accelerator.event()
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        assert event.query()
        event.synchronize()
    assert timeline.counts()["host_syncs"] == 0
