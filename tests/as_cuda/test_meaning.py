"""The meaning of "cuda" in a block of as_cuda, in each of its threads, and after it."""

import copy
import sys
import threading
import warnings

import pytest
import torch

import debubble
from debubble.sim.as_cuda.refusing import NotSimulated, RunsOtherwise

pytestmark = pytest.mark.sim


@pytest.fixture
def cuda(accelerator):
    with debubble.as_cuda():
        yield accelerator


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3, device="cuda"),
        lambda: torch.zeros(3, device=torch.device("cuda", 0)),
        lambda: torch.tensor([1, 2], device="cuda:0"),
        lambda: torch.as_tensor([1, 2], device="cuda"),
        lambda: torch.arange(3, device="cuda"),
        lambda: torch.linspace(0, 1, 3, device="cuda"),
        lambda: torch.eye(3, device="cuda"),
        lambda: torch.tril_indices(3, 3, device="cuda"),
        lambda: torch.randint(3, (2,), device="cuda"),
        lambda: torch.randperm(3, device="cuda"),
        lambda: torch.ones(3).cuda(),
        lambda: torch.ones(3).cuda(0),
        lambda: torch.ones(3).to("cuda"),
        lambda: torch.ones(3).to("cuda:0", torch.float16),
        lambda: torch.ones(3).to(device="cuda", non_blocking=True),
        lambda: torch.ones(3).to(0),
        lambda: torch.empty_like(torch.ones(3), device="cuda"),
        lambda: torch.ones(3).new_zeros(3, device="cuda"),
        lambda: torch.ones(3, device="cuda").new_tensor([1.0]),
        lambda: torch.ones(3).to(torch.ones(3, device="cuda")),
        lambda: torch.cuda.HalfTensor(2, 2),
        lambda: torch.nn.Linear(2, 2).cuda().weight,
        lambda: torch.nn.Linear(2, 2).to("cuda").weight,
        lambda: torch.nn.LSTM(2, 2, device="cuda").weight_hh_l0,
        lambda: torch.ones(3, device="cuda")[1:].clone(),
        lambda: torch.nn.LazyLinear(2).cuda()(torch.ones(1, 3).cuda()),
        lambda: torch.nn.LazyLinear(2, device="cuda")(torch.ones(1, 3).cuda()),
        lambda: torch.eye(2).to_sparse().cuda(),
        lambda: torch.eye(2, device="cuda").to_sparse().to("cuda").half().detach(),
        lambda: torch.sparse_coo_tensor([[0], [0]], [1.0], device="cuda").coalesce() * 2,
    ],
)
def test_each_way_of_saying_it_gives_a_tensor_that_says_so(cuda, make):
    tensor = make()
    assert tensor.is_cuda and tensor.device == torch.device("cuda", 0)
    assert tensor.device.type == "cuda" and "device='cuda:0'" in repr(tensor)


def test_what_is_there_already_is_no_copy(cuda):
    x = torch.ones(3, device="cuda")
    places = ("cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), x.device)
    with debubble.record(cuda) as timeline:
        assert all(x.to(place) is x for place in places) and x.cuda() is x
        torch.as_tensor(x, device="cuda:0")
    assert not timeline.events


def test_another_thread_says_it_too(cuda):
    made = []
    thread = threading.Thread(target=lambda: made.append(torch.ones(2).cuda() + 1))
    thread.start()
    thread.join()
    assert made[0].is_cuda


def test_another_gpu_is_refused_in_cudas_words(cuda):
    for make in (
        lambda: torch.zeros(2, device="cuda:1"),
        lambda: torch.ones(2).cuda(1),
        lambda: torch.cuda.set_device(3),
        lambda: torch.cuda.Stream(device=1),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            make()


@pytest.mark.parametrize("name", ["utilization", "memory_snapshot", "MemPool", "clock_rate"])
def test_what_can_not_be_simulated_says_so_in_one_sentence(cuda, name):
    with pytest.raises(NotSimulated, match=rf"^torch\.cuda\.{name} can't be simulated: .+\.$"):
        getattr(torch.cuda, name)()


def test_no_name_of_torch_cuda_asks_for_a_gpu(cuda):
    """Every public name of torch.cuda works, or refuses with one sentence."""
    for name in torch.cuda.__all__:
        value = getattr(torch.cuda, name)
        if not callable(value) or isinstance(value, type):
            continue
        try:
            value()
        except NotSimulated as error:
            assert str(error).startswith(f"torch.cuda.{name} can't be simulated: ")
        except TypeError as error:
            assert "argument" in str(error), "it takes more than nothing"


def test_what_runs_otherwise_is_said_once(cuda):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert torch.compile(len)("abc") == torch.compile(mode="max-autotune")(len)("abc") == 3
    (warning,) = said
    assert warning.category is RunsOtherwise and warning.filename == __file__


def test_elapsed_time_needs_what_it_needs_on_a_gpu(cuda):
    x = torch.ones(512, 512, device="cuda")
    plain, begin, end = torch.cuda.Event(), *(torch.cuda.Event(enable_timing=True) for _ in "ab")
    with pytest.raises(ValueError, match="enable_timing=True"):
        plain.elapsed_time(end)
    with pytest.raises(ValueError, match="must be recorded"):
        begin.elapsed_time(end)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(20):
        x = x @ x
    end.record()
    with pytest.raises(RuntimeError, match="device not ready"):
        begin.elapsed_time(end)
    end.synchronize()
    assert 0 < begin.elapsed_time(end) < 10


def test_no_host_syncs_rules_what_torch_cuda_waits_for(cuda):
    event = torch.cuda.Event()
    event.record()
    for wait in (
        torch.cuda.synchronize,
        event.synchronize,
        torch.cuda.current_stream().synchronize,
    ):
        with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError):
            wait()


def test_behind_the_block_everything_is_as_it_was(accelerator):
    before = {name: vars(torch.cuda)[name] for name in ("Stream", "is_available", "synchronize")}
    with debubble.as_cuda(), debubble.as_cuda():
        x = torch.ones(2, device="cuda")
        assert torch.cuda.is_available() and torch.version.cuda
    assert {name: vars(torch.cuda)[name] for name in before} == before
    assert x.device == accelerator.device == torch.device("sim", 0) and not x.is_cuda
    assert "cuda" not in vars(torch.Tensor)
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(2, device="cuda")


def test_a_generator_draws_by_its_seed(cuda):
    generator = torch.Generator(device="cuda").manual_seed(7)
    again = torch.Generator("cuda").manual_seed(7)
    assert generator.device.type == "cuda"
    first = torch.rand(3, device="cuda", generator=generator)
    torch.testing.assert_close(first, torch.rand(3, device="cuda", generator=again))


def test_autocast_is_on_for_who_asks(cuda):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cuda") and torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cuda") == torch.bfloat16
        assert torch.nn.Linear(2, 2, device="cuda")(torch.ones(1, 2).cuda()).dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cuda")


def test_the_profiler_sees_the_host_and_says_so(cuda):
    kinds = torch.profiler.ProfilerActivity
    both = torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA])
    with pytest.warns(RunsOtherwise, match="debubble.record"), both as profile:
        torch.ones(2, device="cuda")
    assert profile.key_averages()


def test_nccl_of_several_is_refused_before_it_waits_for_others(cuda, monkeypatch):
    refused = pytest.raises(NotSimulated, match="'nccl' can't be simulated for 2 processes")
    with refused:
        torch.distributed.init_process_group("nccl", "tcp://127.0.0.1:1", world_size=2, rank=0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refused:
        torch.distributed.init_process_group()


@pytest.fixture
def group(cuda, monkeypatch, request):
    """Starts a torch.distributed process group of one member with the arguments `request.param`,
    and destroys it at the end."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group(**request.param, store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


OF_ONE = [
    {},
    {"backend": "nccl"},
    {"backend": "cpu:gloo,cuda:nccl"},
    {"backend": "nccl", "device_id": torch.device("cuda", 0)},
]


@pytest.mark.parametrize("group", OF_ONE, ids=str, indirect=True)
def test_a_group_of_one_has_nccl(cuda, group):
    """A process group of one member says that it is NCCL. Its collectives are copies or do nothing,
    and only a barrier blocks the host."""
    distributed = torch.distributed
    assert "nccl" in distributed.get_backend() and distributed.is_nccl_available()
    x, gathered = torch.ones(4, device="cuda"), torch.empty(4, device="cuda")
    with debubble.record(cuda) as timeline, debubble.no_host_syncs():
        distributed.all_reduce(x)
        distributed.broadcast(x, 0)
        distributed.all_reduce(x, async_op=True).wait()
        distributed.all_gather([gathered], x)
    assert timeline.counts() == dict.fromkeys(timeline.counts(), 0) | {"d2d": 1}
    with debubble.record(cuda) as timeline:
        distributed.barrier(device_ids=[0])
    assert timeline.counts()["host_syncs"] == 1
    assert gathered.tolist() == x.tolist() == [1.0] * 4


@pytest.mark.parametrize("group", [{"backend": "nccl"}], ids=str, indirect=True)
def test_nccl_takes_no_cpu_tensors(group):
    with pytest.raises(RuntimeError, match="cpu"):
        torch.distributed.all_reduce(torch.ones(2))


@pytest.mark.parametrize("group", [{"backend": "nccl"}], ids=str, indirect=True)
def test_ddp_of_one_waits_no_more_than_the_model_alone(cuda, group):
    model = torch.nn.Linear(4, 2, device="cuda")
    alone = copy.deepcopy(model)
    trained = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    x = torch.ones(3, 4, device="cuda")
    with debubble.no_host_syncs():
        trained(x).sum().backward()
        alone(x).sum().backward()
    for got, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert got.grad.tolist() == expected.grad.tolist()


@pytest.mark.parametrize("place", ["cuda", "cuda:0", 0, torch.device("cuda", 0), None], ids=str)
def test_values_are_pinned_and_uploaded(cuda, place):
    """torch.tensor(..., pin_memory=True) on "cuda" is one upload from pinned memory, for which the
    host waits. If `place` is None, "cuda" is the default device."""
    with debubble.record(cuda) as timeline, torch.device("cuda" if place is None else "cpu"):
        options = {} if place is None else {"device": place}
        x = torch.tensor([1.0, 2.0], pin_memory=True, requires_grad=True, **options)
    assert x.is_cuda and x.is_leaf and x.requires_grad and x.tolist() == [1.0, 2.0]
    counts = timeline.counts()
    assert (counts["h2d_pinned"], counts["h2d_pageable"], counts["host_syncs"]) == (1, 0, 1)
    y = x.new_tensor([3], pin_memory=True)
    assert y.is_cuda and y.tolist() == [3.0]


def test_pinned_memory_is_of_the_host_and_made_of_values(cuda):
    assert torch.tensor([1.0], pin_memory=True, requires_grad=True).is_leaf
    with torch.device("cuda"), pytest.raises(RuntimeError, match="only dense CPU tensors"):
        torch.zeros(2, pin_memory=True)
    with pytest.raises(RuntimeError, match=r"call pin_memory\(\)"):
        torch.tensor(torch.ones(2), pin_memory=True)


def test_free_memory_is_what_this_machine_can_hold(cuda):
    """mem_get_info returns memory that this machine really has: nine tenths of it can be allocated
    at once, and a second tensor of that size raises OutOfMemoryError."""
    free, total = torch.cuda.mem_get_info()
    assert free <= total == torch.cuda.get_device_properties(0).total_memory
    held = torch.empty(free * 9 // 10, dtype=torch.uint8, device="cuda")
    assert torch.cuda.mem_get_info()[0] < free // 5
    with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory\. Tried to allocate"):
        torch.empty_like(held)
    del held
    assert torch.cuda.mem_get_info()[0] < free // 2, "the allocator keeps it"
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] > free // 2


def test_results_without_memory_are_out_of_memory_too(cuda):
    x = torch.ones(1 << 20, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        x[:, None] * x
    assert (x * 2)[0].item() == 2.0


def test_a_default_device_changes_nothing_in_sims_own_work(cuda):
    """Assignments, kernels and captures have the same results and counts under a default device:
    they make CPU tensors internally."""
    triton = pytest.importorskip("triton")
    from tests.sim.test_interpreting import doubles_kernel

    def step():
        x[0] = 3.0
        x[[1]] = 4.0
        doubles_kernel[(4,)](x, times=1)

    x, counts = torch.ones(4, device="cuda"), []
    for place in ("cpu", "cuda"):
        x.fill_(1)
        with debubble.record(cuda) as timeline, torch.device(place):
            step()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                doubles_kernel[(triton.cdiv(4, 1),)](x, times=1)
            graph.replay()
        counts.append(timeline.counts())
        assert x.tolist() == [12.0, 16.0, 4.0, 4.0]
    assert counts[0] == counts[1]
