"""The small sync detector, compared with a thousand expressions that were measured on an H200."""

import pytest
import torch

from solutions.pinned_h2d import before, metadata
from solutions.sync_free.katas.before.overlapped_loop import DecodeLoop as RacingLoop
from solutions.sync_free.katas.before.sync_detector import SyncDetector as DetectorOfReads
from solutions.sync_free.katas.overlapped_loop import DecodeLoop
from solutions.sync_free.katas.sync_detector import SyncDetector, allow_waits

from ..accelerators.expressions import measured_on_h200
from ..accelerators.test_effects import KEPT_BY_THE_DRIVER, NOT_AS_MEASURED

MISSED = {
    "is no operator": {
        "torch.cuda.synchronize()",
        "torch.cuda.synchronize() if D == 'cuda' else acc.synchronize()",
        "torch.cuda.current_stream().synchronize()",
        "torch.cuda.current_stream().synchronize() if D == 'cuda' "
        "else acc.current_stream().synchronize()",
        "(lambda e:(e.record(),e.synchronize()))(torch.cuda.Event())",
    },
    "is hidden from modes": {
        "repr(x)",
        "repr(i)",
        "repr(lens)",
        "str(i)",
        "str(x[0,0])",
        "str(zero)",
        'f"{i}"',
        "print(x[0,0],file=__import__('io').StringIO())",
        "print(lens, file=__import__('io').StringIO())",
        "torch.tensor([x[0,0],x[0,1]])",
    },
    "waits inside one operator that no tag tells": {
        "torch.histc(x,4)",
        "torch.histc(a, 10)",
        "torch.isin(r1.long(),torch.arange(200,device=D))",
        "torch.linspace(0,s,3,device=D)",
        "torch.where(m,x,torch.tensor(0.0))",
        "x.index_fill_(0,i,s.float())",
        "x.masked_fill(m,s.float())",
    },
    "checks the answer of a solver": {
        "torch.linalg.inv(torch.eye(4,device=D))",
        "torch.linalg.cholesky(torch.eye(4,device=D))",
        "torch.linalg.solve(sq,sq)",
        "torch.linalg.svd(sq)",
        "torch.linalg.eigh(sq+sq.T)",
        "torch.linalg.lu_factor(sq)",
        "torch.linalg.pinv(sq)",
    },
}
FALSE_ALARMS = {"torch.equal(x,x)"}
"""Expressions that the detector reports although PyTorch doesn't wait: it sees that both arguments
are one tensor."""

SETS = ("nvidia-h200", "nvidia-h200-more", "nvidia-h200-unseen")
"""The sets of measured expressions."""


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_finds_nine_waits_in_ten_and_raises_one_false_alarm(accelerator):
    waiting, found, false_alarms = set(), set(), set()
    for name in SETS:
        for expression in measured_on_h200(name):
            if expression.text in NOT_AS_MEASURED:
                continue
            prepared = expression.prepare(accelerator)
            with SyncDetector() as detector:
                expression.run(prepared)
            if makes_the_host_wait(expression):
                waiting.add(expression.text)
                found |= {expression.text} if detector.waits else set()
            elif detector.waits:
                false_alarms.add(expression.text)
    missed = set().union(*MISSED.values())
    assert waiting - found == missed
    assert false_alarms == FALSE_ALARMS
    assert len(found) >= 0.9 * len(waiting)


def makes_the_host_wait(expression):
    effects = expression.effects
    held = expression.text in KEPT_BY_THE_DRIVER
    return held or bool(effects["host_syncs"] or effects["h2d_pageable"])


@pytest.fixture
def x(accelerator):
    return torch.ones(4, 6, device=accelerator.device)


def waits_of(call):
    with SyncDetector() as detector:
        call()
    return detector.waits


def test_the_first_detector_sees_nothing_but_reads(x):
    with DetectorOfReads() as detector:
        x.sum().item()
        x.cpu()
        x.nonzero()
    assert [wait.what for wait in detector.waits] == ["a value is read"]


def test_a_wait_says_what_and_where(x):
    def reads_a_sum():
        x.sum().item()  # the line

    (wait,) = waits_of(reads_a_sum)
    assert wait == ("a value is read", "reads_a_sum", "x.sum().item()  # the line")


def test_each_kind_is_told_by_its_name(x, accelerator):
    def names_of(*calls):
        return [wait.what for call in calls for wait in waits_of(call)]

    pageable = torch.ones(4, 6)
    assert names_of(x.cpu, lambda: pageable.to(x.device)) == [
        "a blocking copy to the host",
        "a blocking copy from the host",
    ]
    assert names_of(lambda: pageable.copy_(x, non_blocking=True)) == [
        "a copy to pageable host memory"
    ]
    assert names_of(lambda: x[x > 0], lambda: torch.unique(x)) == [
        "a mask has to be counted",
        "_unique2 has to know values that are on the device",
    ]


def test_pinned_memory_in_another_order_is_no_hole(x, accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory can't be pinned here")
    pinned = torch.ones(6, 4, pin_memory=True)
    assert not waits_of(lambda: pinned.t().to(x.device, non_blocking=True))
    assert not waits_of(lambda: pinned.copy_(x.view(6, 4), non_blocking=True))
    (wait,) = waits_of(lambda: pinned.t().copy_(x, non_blocking=True))
    assert wait.what == "a copy to host memory with holes"


def test_nothing_is_waited_for_where_there_is_nothing(x):
    assert not waits_of(lambda: x[:0].cpu())
    assert not waits_of(lambda: x[:0].nonzero())
    assert not waits_of(lambda: torch.tensor([], device=x.device))


def test_notes_of_several_blocks_add_up(x):
    detector = SyncDetector()
    for _ in range(2):
        with detector:
            x.sum().item()
    assert len(detector.waits) == 2


def test_what_is_allowed_around_a_detector_is_allowed_in_it(x):
    with allow_waits(), SyncDetector() as detector:
        x.sum().item()
    assert not detector.waits


def test_it_names_the_upload_of_each_request_in_the_first_chapters_code(accelerator):
    ranges = {0: [(0, 4)], 2: [(1, 3), (5, 6)]}
    build = (before.compute_mm_prefix_range_tensor, metadata.compute_mm_prefix_range_tensor)
    noted = [waits_of(lambda: make(ranges, 3, accelerator.device)) for make in build]  # noqa: B023
    uploads = [wait.line for wait in noted[0] if "torch.tensor(spans" in wait.line]
    assert len(uploads) == 3
    if accelerator.pin_memory:
        assert not noted[1]


@pytest.mark.parametrize("make_loop", [DecodeLoop, RacingLoop])
def test_it_sees_waits_of_operators_and_no_races(accelerator, make_loop):
    if not accelerator.pin_memory:
        pytest.skip("host memory can't be pinned here, and every copy holds the host")
    loop = make_loop(torch.add, 4)
    with SyncDetector() as detector:
        for _ in range(3):
            loop.step(torch.arange(4))
        loop.finish()
    assert not detector.waits
