"""Waits in other threads: they are found and named, and affect no other region."""

import contextlib
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

import debubble
from debubble.contract import backward_pass

from .setting import only


def read(tensor):
    return tensor.sum().item()  # in a thread


def run_in(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def refused_at(call, text):
    """Checks that the call waits where it may not, at a line with this text. Returns the error."""
    with pytest.raises(debubble.HostSyncError) as caught, debubble.no_host_syncs():
        call()
    assert text in caught.value.source.text
    return caught.value


def test_a_wait_in_a_thread_has_its_line_and_the_name_of_the_thread(x):
    with debubble.find_host_syncs() as report:
        run_in(threading.Thread(target=read, args=(x,), name="loader"))
    finding = only(report.findings)
    assert "# in a thread" in finding.source.text
    assert (finding.thread, finding.count) == ("loader", 1)
    assert "loader" in str(report)


def test_a_thread_of_a_class_of_its_own_is_seen_as_well(x):
    class Loader(threading.Thread):
        def run(self):
            self.total = read(x)

    loader = Loader(name="loader")
    with debubble.find_host_syncs() as report:
        run_in(loader)
    assert loader.total == 16
    assert "run" not in vars(loader)
    assert "# in a thread" in only(report.findings).source.text


def test_a_copy_in_a_thread_has_its_line(x, accelerator):
    def upload():
        torch.ones(4).to(accelerator.device, non_blocking=True)  # the upload

    with debubble.find_host_syncs() as report:
        run_in(threading.Thread(target=upload, name="loader"))
    assert "# the upload" in only(report.findings).source.text
    copies = [event for event in report.timeline.events if event.kind == "copy"]
    assert [copy.thread for copy in copies] == ["loader"]


def test_a_synchronisation_in_a_thread_has_its_line(accelerator):
    def wait():
        accelerator.current_stream().synchronize()  # the wait

    with debubble.find_host_syncs() as report:
        run_in(threading.Thread(target=wait, name="loader"))
    finding = only(report.findings)
    assert "# the wait" in finding.source.text
    assert (finding.what, finding.thread) == ("a stream", "loader")


@pytest.mark.parametrize("when", ["before", "in"])
def test_a_thread_pool_is_seen_whenever_it_was_started(x, when):
    with ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
        if when == "before":
            pool.submit(read, x).result()
        with debubble.find_host_syncs() as report:
            assert pool.submit(read, x).result() == 16
    finding = only(report.findings)
    assert "# in a thread" in finding.source.text
    assert finding.thread == "pool_0"


def test_a_thread_that_was_there_before_is_named(x, accelerator):
    """A wait in a thread that was started before the report names this thread. Its line is known on
    sim only: on CUDA, PyTorch can't watch a thread that already runs."""
    go, done = threading.Event(), threading.Event()

    def wait_for_it():
        go.wait()
        read(x)
        done.set()

    threading.Thread(target=wait_for_it, name="early", daemon=True).start()
    with debubble.find_host_syncs() as report:
        go.set()
        done.wait()
    finding = only(report.findings)
    assert finding.thread == "early"
    if accelerator.modelled:
        assert "# in a thread" in finding.source.text


def test_the_same_line_in_two_threads_is_two_findings(x):
    with debubble.find_host_syncs() as report:
        read(x)
        run_in(threading.Thread(target=read, args=(x,), name="loader"))
        read(x)
    assert {finding.thread: finding.count for finding in report.findings} == {None: 2, "loader": 1}


def test_what_one_thread_allows_itself_is_not_allowed_to_another(x):
    with debubble.find_host_syncs() as report, debubble.allow_host_sync():
        read(x)
        run_in(threading.Thread(target=read, args=(x,), name="loader"))
    assert [finding.thread for finding in report.allowed] == [None]
    assert [finding.thread for finding in report.findings] == ["loader"]


def test_a_region_leaves_threads_alone_that_were_there_before(x):
    seen, go = [], threading.Event()

    def wait_for_it():
        go.wait()
        seen.append(read(x))

    thread = threading.Thread(target=wait_for_it, name="early")
    thread.start()
    with debubble.find_host_syncs() as report, debubble.no_host_syncs():
        go.set()
        thread.join()
        with pytest.raises(debubble.HostSyncError):
            read(x)
    assert seen == [16]
    assert only(report.findings).thread == "early"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_region_rules_the_threads_that_it_starts(x):
    """`no_host_syncs` also raises for a wait in a thread that was started inside of it. The
    thread's caller never sees its errors, so the region reports them at its end."""
    seen = []
    loader = threading.Thread(target=lambda: seen.append(read(x)), name="loader")
    refused_at(lambda: run_in(loader), "# in a thread")
    assert not seen


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_catches_everything_hides_no_wait(x):
    def careless():
        with contextlib.suppress(Exception):
            read(x)

    refused_at(lambda: run_in(threading.Thread(target=careless)), "# in a thread")


def test_a_region_rules_the_tasks_that_it_submits(x):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(read, x).result()
        with debubble.no_host_syncs():
            task = pool.submit(read, x)
            with pytest.raises(debubble.HostSyncError, match="# in a thread"):
                task.result()
        assert pool.submit(read, x).result() == 16


def test_a_thread_outlives_the_region_that_started_it(x):
    seen, go = [], threading.Event()

    def later():
        go.wait()
        seen.append(read(x))

    thread = threading.Thread(target=later)
    with debubble.no_host_syncs():
        thread.start()
    go.set()
    thread.join()
    assert seen == [16]


def test_a_thread_of_a_region_may_allow_itself_to_wait(x):
    seen = []

    def reading():
        with debubble.allow_host_sync():
            seen.append(read(x))

    with debubble.no_host_syncs():
        run_in(threading.Thread(target=reading))
    assert seen == [16]


def test_a_thread_that_is_started_where_waits_are_allowed_may_wait(x):
    seen = []
    with debubble.no_host_syncs(), debubble.allow_host_sync():
        run_in(threading.Thread(target=lambda: seen.append(read(x))))
    assert seen == [16]


def with_a_wait_of_their_own(rows):
    """Returns the batch of rows on the device, and waits there for a value, as a naive collate_fn
    of a DataLoader does."""
    batch = torch.stack(rows).to(debubble.accelerator().device)
    assert batch.sum().item() > 0  # in the loader
    return batch


@pytest.mark.parametrize("pin_memory", [False, True])
def test_a_wait_in_a_data_loader_is_refused(x, pin_memory):
    loader = DataLoader(
        torch.ones(8, 4).pin_memory().unbind(),
        batch_size=4,
        collate_fn=with_a_wait_of_their_own,
        pin_memory=pin_memory,
    )
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError):
        next(iter(loader))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_wait_in_a_thread_that_loads_ahead_is_refused(x):
    batches: queue.Queue = queue.Queue()

    def load():
        for _ in range(2):
            batches.put(torch.ones(4).to(x.device))  # ahead
        batches.put(None)

    refused_at(lambda: run_in(threading.Thread(target=load)), "# ahead")


HOOKS = {
    "of a parameter": lambda module, out, hook: module.weight.register_hook(hook),
    "of a tensor": lambda module, out, hook: out.register_hook(hook),
    "of a module, backwards": lambda module, out, hook: module.register_full_backward_hook(
        lambda module, into, out: hook(out[0])
    ),
    "before a module, backwards": lambda module, out, hook: module.register_full_backward_pre_hook(
        lambda module, out: hook(out[0])
    ),
    "behind an accumulation": lambda module, out, hook: (
        module.weight.register_post_accumulate_grad_hook(lambda weight: hook(weight.grad))
    ),
    "of a node": lambda module, out, hook: out.grad_fn.register_hook(
        lambda into, out: hook(out[0])
    ),
}


@pytest.mark.parametrize("place", HOOKS)
def test_a_wait_in_any_hook_is_refused_and_listed_at_its_line(x, place):
    def hook(gradient):
        bool(gradient.isfinite().all())  # the hook

    def loss():
        module = torch.nn.Linear(4, 4, device=x.device)
        hidden = x.clone().requires_grad_()
        # A module reads its hooks when it is called.
        if "module" in place:
            HOOKS[place](module, None, hook)
            return module(hidden).sum()
        out = module(hidden)
        HOOKS[place](module, out, hook)
        return out.sum()

    refused, listed = loss(), loss()
    assert "makes the host wait" in str(refused_at(refused.backward, "# the hook"))
    with debubble.find_host_syncs() as report:
        listed.backward()
    assert {"# the hook" in finding.source.text for finding in report.findings} == {True}


def test_a_region_in_a_thread_holds_there(x):
    caught = []

    def guarded():
        try:
            with debubble.no_host_syncs():
                read(x)
        except debubble.HostSyncError as error:
            caught.append(error)

    run_in(threading.Thread(target=guarded))
    assert "# in a thread" in str(caught[0])
    assert read(x) == 16


def test_what_a_backward_pass_waits_for_belongs_to_the_line_that_runs_it(x):
    weight = torch.ones(4, 4, device=x.device, requires_grad=True)
    loss = weight[x > 0].sum()
    loss.backward(retain_graph=True)
    refused_at(lambda: loss.backward(retain_graph=True), "loss.backward(")
    with debubble.find_host_syncs() as report:
        loss.backward()  # backward
    assert report.findings
    assert all("# backward" in finding.source.text for finding in report.findings), str(report)


def with_a_hook(x):
    """Returns a loss whose weight has a gradient hook that waits: it checks on the host if the
    gradient is finite."""
    weight = torch.ones(4, 4, device=x.device, requires_grad=True)
    weight.register_hook(lambda gradient: gradient * bool(gradient.isfinite().all()))  # the hook
    return (x @ weight).sum()


def test_a_backward_pass_may_do_what_its_caller_allows(x):
    loss = with_a_hook(x)
    with debubble.find_host_syncs() as report, debubble.no_host_syncs(), debubble.allow_host_sync():
        loss.backward()
    assert "# the hook" in only(report.allowed).source.text
    assert not report.findings


def test_a_hook_may_allow_itself_to_wait(x):
    def is_finite(gradient):
        with debubble.allow_host_sync():
            return gradient * bool(gradient.isfinite().all())

    weight = torch.ones(4, 4, device=x.device, requires_grad=True)
    weight.register_hook(is_finite)
    with debubble.no_host_syncs():
        (x @ weight).sum().backward()


def test_a_wait_in_a_backward_pass_names_the_forward_that_made_it(x):
    weight = torch.ones(4, 4, device=x.device, requires_grad=True)

    def step():
        hidden = x @ weight  # the forward
        hidden.register_hook(lambda gradient: bool(gradient.any()) and None)  # the hook
        return (hidden * 2).sum()

    with debubble.find_host_syncs() as report:
        step().backward()
    finding = only(report.findings)
    assert "# the hook" in finding.source.text
    assert "# the forward" in finding.source.forward.text
    assert "for the gradient of" in str(report) and "# the forward" in str(report)
    assert "# the forward" in str(refused_at(lambda: step().backward(), "# the hook"))


def test_a_region_rules_a_backward_pass_inside_another(x):
    def recomputed(weight):
        if weight.requires_grad:
            weight.register_hook(lambda gradient: gradient * bool(gradient.any()))  # inner
        return (x @ weight).sum()

    weight = torch.ones(4, 4, device=x.device, requires_grad=True)
    loss = checkpoint(lambda weight: recomputed(weight * 2), weight, use_reentrant=True)
    refused_at(loss.backward, "# inner")


def test_a_region_leaves_a_backward_pass_of_another_thread_alone(x):
    loss, errors, go = with_a_hook(x), [], threading.Event()

    def backward():
        go.wait()
        try:
            loss.backward()
        except debubble.HostSyncError as error:
            errors.append(error)

    thread = threading.Thread(target=backward)
    thread.start()
    with debubble.no_host_syncs():
        go.set()
        thread.join()
    assert not errors


def test_threads_are_as_they_were_afterwards(x):
    before = threading.Thread.start, ThreadPoolExecutor.submit
    with pytest.raises(KeyError), debubble.find_host_syncs():
        raise KeyError
    assert (threading.Thread.start, ThreadPoolExecutor.submit) == before


class Heard(TorchFunctionMode):
    """A torch function mode that notes the names of all called functions in `names`."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def test_a_mode_around_a_backward_pass_hears_its_hooks(x, monkeypatch):
    """A mode that is put around a backward pass also sees the calls in gradient hooks. The marks of
    lines in a recording on CUDA rely on this."""
    heard = Heard()
    monkeypatch.setattr(backward_pass, "AROUND", [lambda: heard])
    with_a_hook(x).backward()
    assert {"isfinite", "all", "__bool__"} <= {*heard.names}


def test_what_is_stashed_with_a_thread_is_held_and_released():
    """An object that is stashed with a thread is held as long as it is stashed, and no longer.
    PyTorch 2.11 releases a stashed object without having held it."""
    stashed = object()
    held = sys.getrefcount(stashed)
    for each in (stashed, None):
        backward_pass._stash(each)
    assert sys.getrefcount(stashed) == held
