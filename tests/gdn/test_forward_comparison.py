"""Our forward and its peers' are called alike, and the report follows from the times."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch
from rich.console import Console

from solutions.gdn.measure import contenders, forward_calls, forward_comparison
from solutions.gdn.measure.batches import (
    BATCHES,
    DRAWN,
    DRAWN_TOKENS,
    MILD,
    STRONG,
    GatedBatch,
    chosen,
    drawn_batches,
)
from solutions.gdn.measure.contenders import Contenders, in_turn, limited
from solutions.gdn.measure.forward_calls import RuleInputs, Sequences
from solutions.gdn.measure.forward_comparison import (
    compare_forward,
    describe,
    main,
    measure,
    measure_errors,
)
from solutions.gdn.measure.forward_report import (
    Comparison,
    Errors,
    Figures,
    Times,
    mean_ratios,
    tables_of,
    write_record,
)
from solutions.gdn.measure.peer import HAND_OVER, PEERS, packages_entered

from .oracle import recurrence

ROOT = Path(__file__).parents[2]
FLA, QLA = "flash-linear-attention", "FlashQLA"
ALL = ("ours", "no tables", FLA, QLA)


def comparison_of(rows, peers=((FLA, "0.6.0"), (QLA, "0.1.3"))):
    return Comparison(
        accelerator="a GPU",
        shape={"heads": 16},
        runs=3,
        seed=7,
        peers={name: {name: version} for name, version in peers},
        rows={
            batch: {
                name: Figures(
                    Times(called, gpu, (called - 1, called + 1), (gpu - 1, gpu + 1), 0),
                    Errors(0.0027, 0.0031),
                    ["torch"],
                )
                for name, (called, gpu) in zip(ALL, of_batch, strict=False)
            }
            for batch, of_batch in rows.items()
        },
        errors={"in the kernel": {"ours": Errors(0.0027, 0.0031)}},
        planning_us={8: 5.0, 4096: 90.0},
        sentences=["A sentence."],
    )


FOUND = {
    GatedBatch("8192", (8192,)): [(100, 50), (200, 100), (400, 75), (300, 40)],
    GatedBatch("drawn 1", (1, 8185), MILD): [(100, 40), (100, 50), (900, 240)],
}


def printed(comparison):
    console = Console(file=io.StringIO(), width=80)
    for table in tables_of(comparison):
        console.print(table)
    return console.file.getvalue()


def test_ratios_say_how_many_times_as_long_each_peer_takes():
    means = mean_ratios(comparison_of(FOUND))
    assert means[FLA]["as_called_us"] == pytest.approx({"ours": 6.0, "no tables": 18**0.5})
    assert means[FLA]["gpu_us"]["ours"] == pytest.approx(3.0)
    # FlashQLA has no times in the second row, so its mean is the ratio of the first.
    assert means[QLA]["gpu_us"] == pytest.approx({"ours": 0.8, "no tables": 0.4})


def test_the_tables_have_a_row_for_each_batch_and_their_mean():
    shown = printed(comparison_of(FOUND))
    rows = [line.split() for line in shown.splitlines()]
    assert ["8192", "strong", "100", "200", "400", "4.00", "300", "3.00"] in rows
    assert ["drawn", "1", "mild", "40", "50", "240", "6.00"] in rows
    assert ["geometric", "mean", "6.00", "3.00"] in rows
    assert ["geometric", "mean", "3.00", "0.80"] in rows
    assert ["in", "the", "kernel", "ours", "2.7e-03", "3.1e-03"] in rows
    assert "flash-linear-attention 0.6.0" in shown
    assert "FlashQLA 0.1.3" in shown
    assert "…" not in shown


def test_without_a_peer_ours_alone_is_shown(tmp_path):
    comparison = comparison_of({batch: rows[:2] for batch, rows in FOUND.items()}, peers=())
    rows = [line.split() for line in printed(comparison).splitlines()]
    assert ["8192", "strong", "100", "200"] in rows
    record = json.loads(write_record(tmp_path, comparison).read_text())
    assert record["geometric_means_of_ratios"] == {}
    assert record["versions"][FLA] is record["versions"][QLA] is None


def test_the_record_has_all_that_was_found(tmp_path):
    path = write_record(tmp_path / "new", comparison_of(FOUND))
    assert list(path.parent.iterdir()) == [tmp_path / "new" / "gdn_forward.json"]
    record = json.loads(path.read_text())
    first, second = record["cases"]
    assert first["forwards"][FLA] == {
        "as_called_us": 400,
        "gpu_us": 75,
        "as_called_quartiles_us": [399, 401],
        "gpu_quartiles_us": [74, 76],
        "late_runs": 0,
        "relative_errors": {"o": 0.0027, "final_state": 0.0031},
        "packages": ["torch"],
    }
    assert (second["sequences"], second["lengths"]) == ("drawn 1", [1, 8185])
    assert (first["gate"], second["gate"]) == ("strong", "mild")
    assert QLA not in second["forwards"]
    assert record["geometric_means_of_ratios"][FLA]["gpu_us"]["ours"] == pytest.approx(3.0)
    assert record["relative_errors"]["in the kernel"]["ours"]["final_state"] == 0.0031
    assert record["planning_us"] == {"8": 5.0, "4096": 90.0}
    assert (record["versions"][FLA], record["versions"][QLA]) == ("0.6.0", "0.1.3")
    assert (record["seed"], record["sentences"]) == (7, ["A sentence."])


def test_times_are_medians_and_quartiles():
    times = Times.of([5, 1, 2, 4, 3], [30, 10, 20, 50, 40], [True, False, False, True, False])
    assert times == Times(3, 30, (2, 4), (20, 40), late_runs=2)
    assert Times.of([5], [6], [False]) == Times(5, 6, (5, 5), (6, 6), 0)


def test_who_comes_first_changes_and_nobody_is_left_out():
    calls = {"ours": len, "no tables": len, "peer": len}
    orders = [[name for name, _ in in_turn(calls, run)] for run in range(3)]
    assert [order[0] for order in orders] == list(calls)
    assert all(sorted(order) == sorted(calls) for order in orders)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_that_is_not_there_is_said_in_a_sentence(peer, monkeypatch):
    monkeypatch.setitem(sys.modules, peer.package, None)
    package = {FLA: "flash-linear-attention", QLA: "flash-qla"}[peer.name]
    assert peer.why_missing() == (
        f"{peer.name} is not here, so it is left out: pip install {package}"
    )


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_what_a_peer_lacks_is_said_in_a_sentence(peer, fake_peers):
    assert peer.why_missing() is None
    del sys.modules[peer.module].chunk_gated_delta_rule
    assert peer.why_missing().startswith(
        f"{peer.name} can't be imported, so it is left out: AttributeError: "
    )


def token_by_token(
    q, k, v, g, beta, initial_state, output_final_state, use_qk_l2norm_in_kernel, cu_seqlens
):
    """Computes the delta rule by the recurrence, from arguments in the peers' layout: states are
    [N, H, K, V], starts int64. Returns (o, final states)."""
    assert cu_seqlens.dtype == torch.int64
    o, states = recurrence(
        *(q, k, v, g, beta),
        initial_state=initial_state.transpose(2, 3),
        cu_seqlens=cu_seqlens.tolist(),
        l2norm=use_qk_l2norm_in_kernel,
    )
    assert output_final_state
    return o.to(q.device), states.transpose(2, 3).to(q.device)


def put(monkeypatch, module, rule):
    """Replaces `module` and its parents by fake packages. The module's rule is `rule`, called by a
    function of the module itself."""
    parts = module.split(".")
    for number in range(1, len(parts) + 1):
        name = ".".join(parts[:number])
        fake = ModuleType(name)
        fake.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, fake)
    fake.rule = rule
    exec("def chunk_gated_delta_rule(**given):\n    return rule(**given)", vars(fake))


@pytest.fixture
def fake_peers(monkeypatch):
    """Replaces both peers by fake packages whose rule is `token_by_token`."""
    monkeypatch.setitem(os.environ, HAND_OVER, "0")
    for peer in PEERS:
        put(monkeypatch, peer.module, token_by_token)


@pytest.fixture
def one_head(monkeypatch):
    monkeypatch.setattr(forward_calls, "HEADS", 1)
    monkeypatch.setattr(forward_calls, "SIZE", 16)
    monkeypatch.setattr(contenders, "WARM_UPS", 1)
    monkeypatch.setattr(contenders, "Clock", CountingClock)
    monkeypatch.setattr(forward_comparison, "Clock", CountingClock)
    monkeypatch.setattr(forward_comparison, "SHORT", (3,))


class CountingClock:
    """A made-up clock: it runs a call, and returns 1 µs for the first call, 2 µs for the next, and
    so on."""

    late = False

    def __init__(self, accelerator):
        self.calls = 0

    def as_called(self, call):
        call()
        self.calls += 1
        return float(self.calls)

    gpu_alone = as_called


THREE = (GatedBatch("3", (3,)),)


def compared(accelerator, batches=THREE, runs=1, keep=lambda: None, **options):
    """Measures the batches and returns the comparison."""
    all_of_them = Contenders(accelerator, {}, say=lambda sentence: None, **options)
    comparison = describe(all_of_them, runs, seed=0)
    measure(all_of_them, comparison, batches, keep)
    return comparison


def test_all_are_as_right_as_their_types_allow(accelerator, one_head, fake_peers, monkeypatch):
    monkeypatch.setattr(forward_comparison, "SHORT", (1, 66))
    all_of_them = Contenders(accelerator, {})
    comparison = describe(all_of_them, runs=1, seed=0)
    measure_errors(all_of_them, comparison)
    assert list(comparison.errors) == ["in the kernel", "before"]
    for found in comparison.errors.values():
        assert tuple(found) == ALL
        for peer in (FLA, QLA):  # These peers compute in float32.
            assert max(found[peer].o, found[peer].final_state) < 1e-5
        assert 1e-5 < found["ours"].o == found["no tables"].o < 5e-3


def test_every_row_is_measured_in_both_ways(accelerator, one_head, fake_peers):
    batches = GatedBatch("3", (3,)), GatedBatch("3", (3,), MILD)
    kept = []
    comparison = compared(accelerator, batches, keep=lambda: kept.append(1))
    assert tuple(comparison.rows) == batches
    first, last = comparison.rows.values()
    assert [(each.times.as_called_us, each.times.gpu_us) for each in first.values()] == [
        (1, 2),
        (3, 4),
        (5, 6),
        (7, 8),
    ]
    assert tuple(first) == ALL
    assert (last[QLA].times.as_called_us, last[QLA].times.gpu_us) == (15, 16)
    assert "fla" in first[FLA].packages
    assert "flash_qla" in first[QLA].packages
    assert max(first[FLA].errors.o, last[QLA].errors.final_state) < 1e-5
    assert list(comparison.planning_us) == [8, 256, 4096]
    assert comparison.sentences == []
    assert len(kept) == 3


def test_a_peer_that_hands_over_is_refused(accelerator, one_head, fake_peers, monkeypatch):
    """FLA calls FlashQLA wherever that is installed, and its times would be FlashQLA's."""
    handed_over = sys.modules["flash_qla"].chunk_gated_delta_rule
    put(monkeypatch, "fla.ops.gated_delta_rule", handed_over)
    comparison = compared(accelerator)
    (forwards,) = comparison.rows.values()
    assert tuple(forwards) == ("ours", "no tables", QLA)
    assert tuple(comparison.errors["before"]) == ("ours", "no tables", QLA)
    assert comparison.sentences[0] == (
        f"{FLA} is left out at 3, strong gate: MisnamedPeer: its call ran in flash_qla; "
        "set FLA_FLASH_QLA=0 before fla is imported"
    )


def test_loading_a_peer_keeps_fla_at_its_own_kernels(fake_peers, monkeypatch):
    fla, _ = PEERS
    monkeypatch.delitem(os.environ, HAND_OVER)
    fla.load()
    assert os.environ[HAND_OVER] == "0"


def test_a_peer_that_fails_at_one_row_is_back_at_the_next(
    accelerator, one_head, fake_peers, monkeypatch
):
    def rule(**given):
        if given["q"].shape[1] == 4:
            raise RuntimeError("no kernel\n for 4 tokens")
        return token_by_token(**given)

    put(monkeypatch, "flash_qla", rule)
    comparison = compared(accelerator, (GatedBatch("4", (4,)), GatedBatch("3", (3,))))
    four, three = comparison.rows.values()
    assert tuple(four) == ("ours", "no tables", FLA)
    assert tuple(three) == ALL
    assert comparison.sentences == [
        f"{QLA} is left out at 4, strong gate: RuntimeError: no kernel for 4 tokens"
    ]


def test_a_peer_that_fails_while_it_is_timed_has_no_times(accelerator, one_head, fake_peers):
    all_of_them = Contenders(accelerator, {}, say=lambda sentence: None)
    broken = iter([lambda: None, lambda: None, lambda: 1 / 0])
    calls = {"ours": lambda: None, QLA: lambda: next(broken)()}
    times = all_of_them.times(CountingClock(accelerator), lambda: calls, 3, "a row")
    assert list(times) == ["ours"]
    assert all_of_them.sentences == [
        f"{QLA} is left out at a row: ZeroDivisionError: division by zero"
    ]


def test_our_own_failure_is_no_sentence_but_what_is_done_is_kept(
    accelerator, one_head, fake_peers, monkeypatch
):
    kept = []
    monkeypatch.setattr(forward_calls, "chunk_gated_delta_rule", lambda **given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compared(accelerator, keep=lambda: kept.append(1))
    assert kept == [1]


def test_rows_without_time_are_left_out(accelerator, one_head, fake_peers):
    past = time.monotonic() - 1
    batches = GatedBatch("3", (3,)), GatedBatch("4", (4,), MILD)
    comparison = compared(accelerator, batches, deadline=past)
    assert comparison.rows == {}
    assert comparison.sentences[0] == "No time was left for these rows: 3 (strong), 4 (mild)."
    assert tuple(comparison.errors["before"]) == ("ours", "no tables")
    assert "no time is left" in comparison.sentences[1]


def test_a_peer_that_compiles_for_too_long_is_stopped():
    with pytest.raises(TimeoutError, match="more than 0 s"), limited(0.01):
        time.sleep(60)
    with limited(60):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_the_packages_of_a_call_are_those_that_it_enters(fake_peers):
    assert packages_entered(lambda: json.dumps({})) == {"tests"}
    sys.modules["flash_qla"].rule = dict
    assert packages_entered(sys.modules["flash_qla"].chunk_gated_delta_rule) == {"flash_qla"}


def test_drawn_rows_follow_from_the_seed():
    assert list(drawn_batches(5)) == list(drawn_batches(5)) != list(drawn_batches(6))
    for seed in range(50):
        batches = list(drawn_batches(seed))
        assert len({batch.sequences for batch in batches}) == DRAWN
        for batch in batches:
            least, most = DRAWN_TOKENS
            assert least <= sum(batch.lengths) <= most
            assert min(batch.lengths) > 0


def test_rows_are_chosen_by_name():
    assert [batch.gate for batch in chosen(BATCHES, ["8192"])] == [STRONG, MILD]
    assert chosen(BATCHES, None) == list(BATCHES)
    with pytest.raises(ValueError, match="No row is named '8193': the rows are 128 x 64, "):
        chosen(BATCHES, ["8192", "8193"])


def test_normalised_inputs_have_length_1(accelerator, one_head):
    sequences = Sequences([3, 2], accelerator.device)
    for normalizes in (True, False):
        inputs = RuleInputs.random(sequences, normalizes)
        lengths = inputs.q.float().norm(dim=-1).cpu()
        assert torch.allclose(lengths, torch.ones(1, 5, 1), atol=1e-2) is not normalizes
        assert inputs.g.max() <= 0
        assert inputs.states.shape == (2, 1, 16, 16)


def test_a_mild_gate_keeps_nearly_all_of_a_state(accelerator, one_head):
    sequences = Sequences([300], accelerator.device)
    mild, strong = (RuleInputs.random(sequences, gate=gate).g for gate in (MILD, STRONG))
    assert -0.01 <= mild.min() <= mild.max() <= 0
    assert mild.dtype == strong.dtype == torch.float32
    assert strong.min() < -1


def test_a_wrong_row_is_said_at_once(capsys):
    with pytest.raises(SystemExit):
        main(["--rows", "1"])
    assert "No row is named '1'" in capsys.readouterr().err


@pytest.mark.sim
def test_on_sim_it_is_said_that_nothing_is_timed(accelerator, tmp_path):
    console = Console(file=io.StringIO(), width=200)
    compare_forward(accelerator, console, tmp_path)
    assert console.file.getvalue().startswith("Our forward is compared with its peers on a GPU")
    assert list(tmp_path.iterdir()) == []


QUICK_RUN = """
import sys
from pathlib import Path

from rich.console import Console

import debubble
from solutions.gdn.measure import forward_comparison
from solutions.gdn.measure.batches import GatedBatch

forward_comparison.BATCHES = GatedBatch("512, 512", (512, 512)), GatedBatch("64 x 16", (64,) * 16)
gpu = debubble.accelerator("cuda")
rows = ["512, 512", "64 x 16"]
forward_comparison.compare_forward(gpu, Console(width=200), Path(sys.argv[1]), 5, rows)
"""


@pytest.mark.gpu
def test_a_quick_run_on_a_gpu(accelerator, tmp_path):
    """The benchmark's quick run on a GPU writes a record with our forward's times, and those of the
    peers that are installed. They run in a process of its own."""
    command = [sys.executable, "-c", QUICK_RUN, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    record = json.loads((tmp_path / "gdn_forward.json").read_text())
    for peer in PEERS:
        here = find_spec(peer.package) is not None
        assert here or f"{peer.name} is not here" in run.stdout
        assert here or record["versions"][peer.name] is None
    assert [case["sequences"] for case in record["cases"]] == ["512, 512", "64 x 16"]
    for case in record["cases"]:
        ours = case["forwards"]["ours"]
        assert min(ours["as_called_us"], ours["gpu_us"]) > 0
        assert max(ours["relative_errors"].values()) < 5e-3
    for errors in record["relative_errors"].values():
        assert max(errors["ours"].values()) < 5e-3
