"""Things that code for CUDA does besides calling operators, on sim."""

import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import debubble
from debubble.sim.operators.features import handles

pytestmark = [pytest.mark.sim, pytest.mark.filterwarnings("ignore")]


def test_an_event_of_pytorchs_is_waited_for_and_times_what_lies_between(accelerator):
    start, end = (torch.Event("sim", enable_timing=True) for _ in range(2))
    with debubble.record(accelerator) as timeline:
        start.record()
        accelerator.sleep(2)
        end.record()
        end.synchronize()
    assert timeline.counts()["host_syncs"] == 1
    assert start.elapsed_time(end) == pytest.approx(2, rel=0.1)
    assert isinstance(start, torch.Event)


def test_a_time_begins_where_the_host_marks_it_on_a_device_that_is_idle(accelerator):
    start, end = (torch.Event("sim", enable_timing=True) for _ in range(2))
    accelerator.sleep(1)
    torch.accelerator.synchronize()
    for _ in range(1000):
        torch.empty(1, device="sim")
    start.record()
    accelerator.sleep(2)
    end.record()
    torch.accelerator.synchronize()
    assert start.elapsed_time(end) == pytest.approx(2, rel=0.05)


def test_a_stream_of_pytorchs_is_one_of_sims(accelerator):
    stream = torch.Stream("sim")
    with debubble.record(accelerator) as timeline, stream:
        torch.ones(4, device="sim")
    lanes = {event.lane for event in timeline.events if event.kind == "kernel"}
    assert lanes == {"stream 1"}


@pytest.mark.parametrize("ours", [handles.StreamOnSim, handles.EventOnSim])
def test_all_that_pytorchs_handles_can_do_but_for_addresses_ours_can(ours):
    """Our streams and events have all methods of PyTorch's except those for native handles:
    PyTorch's own optimizers may call a new method as soon as it exists."""
    theirs = {handles.StreamOnSim: handles._STREAM, handles.EventOnSim: handles._EVENT}[ours]
    missing = {name for name in {*dir(theirs)} - {*dir(ours)} if not name.startswith("_")}
    assert missing <= {"device_type", "native_handle", "ipc_handle", "from_ipc_handle"}


def test_a_stream_says_whether_a_graph_is_captured(accelerator):
    assert not torch.accelerator.current_stream().is_capturing()
    with accelerator.graph().capture():
        assert torch.accelerator.current_stream().is_capturing()
    assert not torch.accelerator.current_stream().is_capturing()


def test_accelerator_synchronize_is_a_wait(accelerator):
    with debubble.record(accelerator) as timeline:
        torch.accelerator.synchronize()
    assert timeline.counts()["host_syncs"] == 1


def test_lazy_layers_take_their_shapes_on_the_device(accelerator):
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyLinear(2)).to("sim")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.rand(3, 5, device="sim")).sum().backward()
    optimizer.step()
    assert model[0].weight.shape == (4, 5)
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"sim"}
    on_cpu = nn.LazyLinear(4)
    assert on_cpu(torch.rand(3, 5)).device.type == "cpu"


def test_a_module_on_the_cpu_changes_its_type_whoever_looks_at_it(accelerator):
    module = nn.Linear(2, 2)
    weight = weakref.ref(module.weight)
    assert module.double().weight is weight()
    module.load_state_dict({name: t + 1 for name, t in module.state_dict().items()})
    assert module.weight is weight() and weight().dtype == torch.float64


@pytest.mark.parametrize(("there", "back"), [("sim", "cpu"), ("sim", "sim")])
def test_a_module_that_moves_keeps_its_parameters_and_their_gradients(accelerator, there, back):
    module = nn.Linear(2, 2)
    module(torch.ones(1, 2)).sum().backward()
    before = [*module.parameters()]
    for device in (there, back):
        module.to(device)
        assert all(is_now is was for is_now, was in zip(module.parameters(), before, strict=True))
        assert {p.device.type for p in before} == {p.grad.device.type for p in before} == {device}
    assert module.weight.grad.tolist() == [[1, 1], [1, 1]]


class Marked(torch.Tensor):
    """A tensor subclass. Results of its operators keep the class on sim, as on other devices."""


def test_a_tensor_of_sim_can_be_of_a_class_of_ones_own(accelerator):
    x = torch.rand(3, device="sim", requires_grad=True)
    y = x.as_subclass(Marked)
    assert type(y * 2).__name__ == "Marked" and isinstance(y * 2, Marked)
    (y * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_an_encoder_takes_a_padding_mask(accelerator):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    on_cpu = nn.TransformerEncoder(layer, 2).eval()
    x, mask = torch.rand(2, 3, 16), torch.tensor([[False, False, True], [False, True, True]])
    with torch.no_grad():
        expected = on_cpu(x, src_key_padding_mask=mask)
        got = on_cpu.to("sim")(x.to("sim"), src_key_padding_mask=mask.to("sim"))
    torch.testing.assert_close(got.cpu()[~mask], expected[~mask])


def test_ctc_reads_lengths_wherever_they_are(accelerator):
    scores, targets = torch.randn(10, 2, 5).log_softmax(2), torch.tensor([[1, 2, 3], [4, 1, 1]])
    lengths = torch.tensor([10, 9]), torch.tensor([3, 2])
    expected = F.ctc_loss(scores, targets, *lengths)
    for there in (lengths, [tensor.to("sim") for tensor in lengths]):
        got = F.ctc_loss(scores.to("sim"), targets.to("sim"), *there)
        torch.testing.assert_close(got.cpu(), expected)


MEASURED = {
    "torch.normal(x, s)": (2, 0, 0),
    "torch.normal(0.0, s)": (2, 0, 0),
    "torch.normal(x, 1.0)": (0, 0, 0),
    "torch.normal(x, s, out=y)": (1, 0, 0),
    "torch.normal(x[:0], s[:0])": (0, 0, 0),
    "torch.distributions.Normal(x, s, validate_args=False).sample()": (2, 0, 0),
    "x[on_cpu] = 4.0": (0, 1, 1),
    "x[on_cpu, 0] = 4.0": (0, 1, 1),
    "x[on_cpu.to(x.device)] = 4.0": (0, 1, 0),
    "torch.linalg.matrix_exp(x[:3])": (3, 3, 0),
    "torch.linalg.matrix_exp(x.expand(2, 4, 3)[:, :3])": (2, 1, 0),
    "torch.linalg.matrix_exp(x[:1, :1])": (0, 0, 0),
}
"""The (reads, pageable uploads, pinned uploads) of each expression on an H100. `matrix_exp` of a
batch reads a value and downloads."""


@pytest.mark.parametrize("expression", MEASURED)
def test_an_operator_waits_as_often_as_on_an_h100(accelerator, expression):
    x, y, s = (torch.ones(4, 3, device=accelerator.device) for _ in range(3))
    names = {"torch": torch, "x": x, "y": y, "s": s, "on_cpu": torch.tensor([True, False] * 2)}
    with debubble.record(accelerator) as timeline:
        exec(expression, names)
    counts = timeline.counts()
    found = counts["d2h"], counts["h2d_pageable"], counts["h2d_pinned"]
    assert found == MEASURED[expression]
    assert counts["host_syncs"] == found[0] + found[1]


def test_data_parallel_is_the_one_device(accelerator):
    model = nn.DataParallel(nn.Linear(3, 2).to("sim"))
    assert model(torch.rand(4, 3, device="sim")).shape == (4, 2)


def test_memory_is_shared_with_no_other_library(accelerator):
    x = torch.rand(3, device="sim")
    assert torch.equal(torch.from_dlpack(x), x)
    with pytest.raises(BufferError, match=r"hand over tensor\.cpu\(\)"):
        torch.utils.dlpack.to_dlpack(x)


@pytest.mark.parametrize("length", [64, 63])
@pytest.mark.parametrize("head", [16, 15], ids=["fused", "step by step"])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_inference_mode_has_the_kernels_of_any_other(
    accelerator, length, head, masked
):
    x = torch.rand(2, 4, length, head, device="sim")
    mask = torch.rand(2, 1, 1, length, device="sim") > 0.3 if masked else None

    def kernels():
        with debubble.record(accelerator) as timeline:
            F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        return [event.name for event in timeline.events if event.kind == "kernel"]

    expected = kernels()
    with torch.inference_mode():
        assert kernels() == expected


def test_flex_attention_called_directly_is_attention(accelerator):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q = torch.rand(1, 2, 16, 8, device="sim", requires_grad=True)
    mask = create_block_mask(lambda b, h, row, column: row >= column, None, None, 16, 16, "sim")
    out = flex_attention(q, q, q, block_mask=mask)
    expected = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    torch.testing.assert_close(out.cpu(), expected.cpu())
    out.sum().backward()
    assert q.grad.isfinite().all()


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: torch.eye(3, device="sim").to_sparse_csr(), "sparse_csr"),
        (lambda: torch.eye(3, device="sim").to_sparse().to_sparse_csr(), "sparse_csr"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], device="sim") * 2, "nested"),
    ],
    ids=["compressed", "COO to compressed", "nested"],
)
def test_what_sim_has_none_of_it_says_in_a_sentence(accelerator, make, kind):
    with pytest.raises(NotImplementedError, match=f"sim has no .*{kind}.* on the CPU"):
        make().sum().backward()


def test_jagged_tensors_compute(accelerator):
    parts = [torch.ones(2, 3, device="sim"), torch.ones(1, 3, device="sim")]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged)
    assert (x * 2).to_padded_tensor(0.0).sum().item() == 18


def test_a_forward_derivative_of_a_gradient(accelerator):
    x = torch.rand(3, device="sim")
    found = torch.func.hessian(lambda w: (w**3).sum())(x)
    torch.testing.assert_close(found.cpu(), torch.diag(6 * x.cpu()))


HALF, FULL = torch.float16, torch.float32


@pytest.mark.parametrize(
    ("work", "dtype"),
    [
        (lambda h, x: x @ x, HALF),
        (lambda h, x: torch.einsum("ij,jk", x, x), HALF),
        (lambda h, x: h.exp(), FULL),
        (lambda h, x: h.log(), FULL),
        (lambda h, x: h.pow(2), FULL),
        (lambda h, x: F.mse_loss(h, h), FULL),
        (lambda h, x: F.group_norm(h, 2), FULL),
        (lambda h, x: h.norm(), FULL),
        (lambda h, x: h.sum(), FULL),
        (lambda h, x: torch.addcmul(h, x, x), FULL),
        (lambda h, x: F.gelu(h), HALF),
        (lambda h, x: torch.cat([h, x]), FULL),
    ],
)
def test_autocast_goes_by_cudas_lists(accelerator, work, dtype):
    x = torch.rand(4, 4, device="sim")
    with torch.autocast("sim", dtype=HALF):
        assert work(x.half(), x).dtype == dtype


def test_autocast_casts_a_weight_once(accelerator):
    model, x = nn.Linear(4, 4).to("sim"), torch.rand(2, 4, device="sim")
    with debubble.record(accelerator) as timeline, torch.autocast("sim", dtype=HALF):
        model(model(x))
    casts = [event for event in timeline.events if event.kind == "kernel" and event.name == "copy"]
    assert len(casts) == 3


def test_autocast_refuses_the_loss_that_overflows(accelerator):
    x = torch.rand(3, device="sim")
    with torch.autocast("sim"), pytest.raises(RuntimeError, match="with_logits"):
        F.binary_cross_entropy(x, x)


@pytest.mark.parametrize("work", ["x.prod()", "x.prod(0)", "x.cumprod(0)"])
def test_the_gradient_of_a_product_waits_as_on_cuda(accelerator, work):
    x = torch.tensor([1.0, 2.0, 3.0], device="sim", requires_grad=True)
    out = eval(work, {"x": x}).sum()
    with debubble.record(accelerator) as timeline:
        out.backward()
    assert timeline.counts()["host_syncs"] == 1


def test_dropout_in_attention_drops_the_same_in_its_gradient(accelerator):
    q, k = (torch.rand(1, 2, 8, 8, device="sim", requires_grad=True) for _ in range(2))
    value = torch.eye(8, device="sim").expand(1, 2, 8, 8).clone().requires_grad_()
    dropped = F.scaled_dot_product_attention(q, k, value, dropout_p=0.5)
    dropped.sum().backward()
    torch.testing.assert_close(value.grad.sum(-1).cpu(), 8 * dropped.sum(-2).detach().cpu())


def test_a_loop_over_a_loader_with_workers(accelerator):
    data = torch.utils.data.TensorDataset(torch.arange(8.0)[:, None], torch.arange(8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1)
    total = sum((x.to("sim").squeeze(1) + y.to("sim")).sum().item() for x, y in loader)
    assert total == 56


class Names(TorchDispatchMode):
    """A dispatch mode that notes, as "name on device", which operators PyTorch shows it."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        self.shown += [f"{func.overloadpacket.__name__} on {t.device.type}" for t in tensors[:1]]
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("with_gradient", [False, True])
def test_a_dispatch_mode_is_shown_what_sim_takes_in_one_piece(accelerator, with_gradient):
    x = torch.rand(1, 2, 8, 16, device="sim", requires_grad=with_gradient)
    ids = torch.arange(3, device="sim")
    with Names() as mode:
        F.one_hot(ids)
        F.scaled_dot_product_attention(x, x, x)
    assert mode.shown == ["one_hot on sim", "scaled_dot_product_attention on sim"]


def test_a_dispatch_mode_is_not_shown_how_sim_finds_a_gradient(accelerator):
    x = torch.rand(1, 2, 8, 16, device="sim", requires_grad=True)
    loss = F.scaled_dot_product_attention(x, x, x).sum() + F.rms_norm(x, (16,)).sum()
    with Names() as mode:
        loss.backward()
    assert mode.shown and not [name for name in mode.shown if name.endswith("cpu")]
