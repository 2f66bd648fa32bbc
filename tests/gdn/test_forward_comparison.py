"""Our forward and the peer's are called alike, and the report follows from the times."""

import io
import json
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch
from rich.console import Console

from solutions.gdn.measure import forward_calls, forward_comparison
from solutions.gdn.measure.forward_calls import RuleInputs, Sequences
from solutions.gdn.measure.forward_comparison import compare_forward, errors_of, in_turn, measure
from solutions.gdn.measure.forward_report import (
    Case,
    Comparison,
    Errors,
    Times,
    mean_ratios,
    ratios,
    tables_of,
    write_record,
)
from solutions.gdn.measure.peer import missing_peer, peer_version

from .oracle import recurrence

ROOT = Path(__file__).parents[2]


def comparison_of(times, peer="0.6.0"):
    names = ("ours", "no tables", "peer")
    return Comparison(
        accelerator="a GPU",
        shape={"heads": 16},
        lengths={"8192": [8192], "7 x 1, 8185": [1] * 7 + [8185]},
        runs=3,
        peer=peer,
        times={
            case: {name: Times(*each) for name, each in zip(names, of_case, strict=False)}
            for case, of_case in times.items()
        },
        errors={"in the kernel": {"ours": Errors(0.0027, 0.0031)}},
        planning_us={8: 5.0, 4096: 90.0},
    )


FOUND = {
    Case("8192", True, True): [(100, 50), (200, 100), (400, 75)],
    Case("7 x 1, 8185", False, False): [(100, 40), (100, 50), (900, 240)],
}


def printed(comparison):
    console = Console(file=io.StringIO(), width=80)
    for table in tables_of(comparison):
        console.print(table)
    return console.file.getvalue()


def test_ratios_say_how_many_times_as_long_the_peer_takes():
    comparison = comparison_of(FOUND)
    assert ratios(comparison, "as_called_us") == [4.0, 9.0]
    assert ratios(comparison, "gpu_us") == [1.5, 6.0]
    means = mean_ratios(comparison)
    assert means["as_called_us"] == pytest.approx({"ours": 6.0, "no tables": 18**0.5})
    assert means["gpu_us"]["ours"] == pytest.approx(3.0)


def test_the_tables_have_a_row_for_each_case_and_their_mean():
    shown = printed(comparison_of(FOUND))
    rows = [line.split() for line in shown.splitlines()]
    assert ["8192", "in", "the", "kernel", "yes", "100", "200", "400", "4.00"] in rows
    assert ["7", "x", "1,", "8185", "before", "no", "40", "50", "240", "6.00"] in rows
    assert ["geometric", "mean", "6.00"] in rows
    assert ["geometric", "mean", "3.00"] in rows
    assert ["in", "the", "kernel", "ours", "2.7e-03", "3.1e-03"] in rows
    assert "flash-linear-attention 0.6.0" in shown
    assert "…" not in shown


def test_without_the_peer_ours_alone_is_shown(tmp_path):
    comparison = comparison_of({case: times[:2] for case, times in FOUND.items()}, peer=None)
    rows = [line.split() for line in printed(comparison).splitlines()]
    assert ["8192", "in", "the", "kernel", "yes", "100", "200"] in rows
    record = json.loads(write_record(tmp_path, comparison).read_text())
    assert record["geometric_means_of_peer_over"] == {}
    assert record["versions"]["flash-linear-attention"] is None


def test_the_record_has_all_that_was_found(tmp_path):
    path = write_record(tmp_path / "new", comparison_of(FOUND))
    assert path == tmp_path / "new" / "gdn_forward.json"
    record = json.loads(path.read_text())
    assert record["lengths"]["7 x 1, 8185"] == [1, 1, 1, 1, 1, 1, 1, 8185]
    first, second = record["cases"]
    assert first["forwards"]["peer"] == {"as_called_us": 400, "gpu_us": 75}
    assert (second["sequences"], second["normalized"]) == ("7 x 1, 8185", "before")
    assert (first["with_states"], second["with_states"]) == (True, False)
    assert record["geometric_means_of_peer_over"]["gpu_us"]["ours"] == pytest.approx(3.0)
    assert record["relative_errors"]["in the kernel"]["ours"]["final_state"] == 0.0031
    assert record["planning_us"] == {"8": 5.0, "4096": 90.0}
    assert record["versions"]["flash-linear-attention"] == "0.6.0"


def test_who_comes_first_changes_and_nobody_is_left_out():
    calls = {"ours": len, "no tables": len, "peer": len}
    orders = [[name for name, _ in in_turn(calls, run)] for run in range(3)]
    assert [order[0] for order in orders] == list(calls)
    assert all(sorted(order) == sorted(calls) for order in orders)


def test_a_peer_that_is_not_there_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "fla", None)
    assert missing_peer() == (
        "flash-linear-attention is not here, so only our forward is measured: "
        "pip install flash-linear-attention"
    )


def test_what_a_peer_lacks_is_said_in_a_sentence(monkeypatch):
    put_peer(monkeypatch)
    assert missing_peer() is None
    del sys.modules["fla.ops.gated_delta_rule"].chunk_gated_delta_rule
    assert missing_peer().startswith(
        "flash-linear-attention can't be imported, so only our forward is measured: cannot import "
    )


def put_peer(monkeypatch):
    """Replaces the peer library `fla` by a fake package, whose rule is `token_by_token`."""
    for name in ("fla", "fla.ops", "fla.ops.gated_delta_rule"):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["fla.ops.gated_delta_rule"].chunk_gated_delta_rule = token_by_token


def token_by_token(
    q,
    k,
    v,
    g,
    beta,
    initial_state,
    output_final_state,
    use_qk_l2norm_in_kernel,
    cu_seqlens,
):
    """Computes the delta rule by the recurrence, from arguments in the peer's layout: states are
    [N, H, K, V], starts int64. Returns (o, final states)."""
    assert cu_seqlens.dtype == torch.int64
    o, states = recurrence(
        *(q, k, v, g, beta),
        initial_state=None if initial_state is None else initial_state.transpose(2, 3),
        cu_seqlens=cu_seqlens.tolist(),
        l2norm=use_qk_l2norm_in_kernel,
    )
    assert output_final_state is (initial_state is not None)
    return o.to(q.device), states.transpose(2, 3).to(q.device)


@pytest.fixture
def few_heads(monkeypatch):
    monkeypatch.setattr(forward_calls, "HEADS", 2)
    monkeypatch.setattr(forward_calls, "SIZE", 16)


def test_both_are_as_right_as_their_types_allow(accelerator, few_heads, monkeypatch):
    put_peer(monkeypatch)
    errors = errors_of(Sequences([1, 66], accelerator.device), with_peer=True)
    assert list(errors) == ["in the kernel", "before"]
    for found in errors.values():
        assert list(found) == ["ours", "no tables", "peer"]
        # This peer computes in float32.
        assert max(found["peer"].o, found["peer"].final_state) < 1e-5
        assert 1e-5 < found["ours"].o == found["no tables"].o < 5e-3


class CountingClock:
    """A made-up clock: it runs a call, and returns 1 µs for the first call, 2 µs for the next, and
    so on."""

    def __init__(self, accelerator):
        self.calls = 0

    def as_called(self, call):
        call()
        self.calls += 1
        return float(self.calls)

    gpu_alone = as_called


def test_every_case_is_measured_in_both_ways(accelerator, few_heads, monkeypatch):
    put_peer(monkeypatch)
    monkeypatch.setattr(forward_comparison, "Clock", CountingClock)
    monkeypatch.setattr(forward_calls, "HEADS", 1)
    monkeypatch.setattr(forward_comparison, "WARM_UPS", 1)
    monkeypatch.setattr(forward_comparison, "LENGTHS", {"3": [3]})
    monkeypatch.setattr(forward_comparison, "SHORT", [3])
    comparison = measure(accelerator, runs=1, with_peer=True)
    cases = [(case.sequences, case.normalized, case.with_states) for case in comparison.times]
    assert cases == [
        ("3", normalized, with_states)
        for normalized in ("in the kernel", "before")
        for with_states in (True, False)
    ]
    first, *_, last = comparison.times.values()
    assert first == {"ours": Times(1, 2), "no tables": Times(3, 4), "peer": Times(5, 6)}
    assert last["peer"] == Times(4 * 6 - 1, 4 * 6)
    assert list(comparison.planning_us) == [8, 256, 4096]


def test_normalised_inputs_have_length_1(accelerator, few_heads):
    sequences = Sequences([3, 2], accelerator.device)
    for normalizes in (True, False):
        inputs = RuleInputs.random(sequences, normalizes)
        lengths = inputs.q.float().norm(dim=-1).cpu()
        assert torch.allclose(lengths, torch.ones(1, 5, 2), atol=1e-2) is not normalizes
        assert inputs.g.max() <= 0
        assert inputs.states.shape == (2, 2, 16, 16)


def test_the_sequences_are_as_many_tokens_each_time():
    assert {sum(lengths) for lengths in forward_comparison.LENGTHS.values()} == {8192}


@pytest.mark.sim
def test_on_sim_it_is_said_that_nothing_is_timed(accelerator, tmp_path):
    console = Console(file=io.StringIO(), width=200)
    compare_forward(accelerator, console, tmp_path)
    assert console.file.getvalue().startswith("Our forward is compared with its peer on a GPU only")
    assert list(tmp_path.iterdir()) == []


QUICK_RUN = """
import sys
from pathlib import Path

from rich.console import Console

import debubble
from solutions.gdn.measure import forward_comparison

forward_comparison.LENGTHS = {"512, 512": [512, 512], "64 x 16": [64] * 16}
gpu = debubble.accelerator("cuda")
forward_comparison.compare_forward(gpu, Console(width=200), Path(sys.argv[1]), runs=5)
"""


@pytest.mark.gpu
def test_a_quick_run_on_a_gpu(accelerator, tmp_path):
    """The benchmark's quick run on a GPU writes a record with our forward's times, and the peer's
    if it is installed. The peer runs in a process of its own."""
    command = [sys.executable, "-c", QUICK_RUN, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    record = json.loads((tmp_path / "gdn_forward.json").read_text())
    version = record["versions"]["flash-linear-attention"]
    assert version == (peer_version() if find_spec("fla") else None)
    assert ("only our forward is measured" in run.stdout) is (version is None)
    assert [case["sequences"] for case in record["cases"]] == ["512, 512"] * 4 + ["64 x 16"] * 4
    for case in record["cases"]:
        ours = case["forwards"]["ours"]
        assert min(ours["as_called_us"], ours["gpu_us"]) > 0
    for errors in record["relative_errors"].values():
        assert max(errors["ours"].values()) < 5e-3
    assert bool(record["geometric_means_of_peer_over"]) is (version is not None)
