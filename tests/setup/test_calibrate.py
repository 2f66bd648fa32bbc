"""`debubble calibrate`: the cost model, then everything else that registers for calibration."""

import json
from dataclasses import asdict
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

import debubble
from debubble.assets import slug
from debubble.cli import app
from debubble.clock.configuration import Configuration
from debubble.clock.cost import CALIBRATIONS, CostModel
from debubble.commands import calibrate as command
from debubble.commands import registered as registered_module
from debubble.commands.calibration import calibration
from debubble.commands.calibration.operators import along, measuring, networks, pointwise
from debubble.commands.calibration.operators.draw import Draw
from debubble.commands.calibration.operators.marked import calls_of
from debubble.commands.calibration.pieces import SIZES, cliff
from debubble.commands.registered import registered

PARTS = """
def swap(accelerator, console):
    console.print(f"swap on {accelerator.description}")

def breaks(accelerator, console):
    console.print("half done")
    raise OSError("no room\\nleft")
"""
CONSTANTS = {
    name: value
    for name, value in asdict(CostModel.load()).items()
    if name not in ("gpu", "kernels")
}


def row(*sizes, kind="add 2 float32 dense", us):
    sizes = sizes or (1024, 1024, 32)
    return measuring.Row(Configuration([kind, "add"], sizes, (1, 1, 0.5)), us, 1)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Returns a made-up GPU. Its calibration measures the shipped constants."""
    fake = SimpleNamespace(description="Fake GPU", has_copy_batch=True, device="fake")
    monkeypatch.setattr(command, "accelerator", lambda name: fake)
    monkeypatch.setattr(calibration, "calibrate", lambda gpu: iter(CONSTANTS.items()))
    monkeypatch.setattr(command, "FOLDER", tmp_path / "kernels")
    monkeypatch.setattr(measuring, "measure", lambda device: iter([[row(us=2.0)]]))
    monkeypatch.setattr(measuring, "memory_bandwidth", lambda device: 3e6)
    return fake


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """Returns register(name="module:function", ...), which replaces the parts that are registered
    for calibration; none at first."""
    (tmp_path / "fake_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)

    def register(**values: str) -> None:
        points = {name: EntryPoint(name, value, command.GROUP) for name, value in values.items()}
        monkeypatch.setattr(command, "registered", lambda group: points)

    register()
    return register


@pytest.fixture
def run(tmp_path):
    return lambda *arguments: CliRunner().invoke(app, ["calibrate", *arguments])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "fake.json"


@pytest.mark.usefixtures("gpu")
def test_the_cost_model_is_written_and_then_every_other_part_runs(run, parts, file):
    parts(swap="fake_parts:swap")
    result = run("--output", str(file))
    assert result.exit_code == 0, result.output
    assert json.loads(file.read_text()) == {"gpu": "Fake GPU", "kernels": ""} | CONSTANTS
    assert result.output.index(f"{file.name}") < result.output.index("swap on Fake GPU")


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("fake_parts:breaks", "failed: OSError: no room left"),
        ("fake_parts:absent", "failed: AttributeError"),
        ("no_such_module:swap", "failed: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_part_that_fails_says_so_in_a_sentence_and_the_rest_stays(
    run, parts, file, value, sentence
):
    parts(bad=value, swap="fake_parts:swap")
    result = run("--output", str(file))
    assert result.exit_code == 1
    assert file.exists() and "swap on Fake GPU" in result.output
    (said,) = result.stderr.splitlines()
    assert said.startswith(f"calibration 'bad' ({value}) ") and sentence in said


@pytest.mark.usefixtures("gpu")
def test_one_part_alone(run, parts, file):
    parts(swap="fake_parts:swap", bad="fake_parts:breaks")
    result = run("--only", "swap")
    assert result.exit_code == 0, result.output
    assert result.output == "swap on Fake GPU\n"
    result = run("--only", "cost", "--output", str(file))
    assert result.exit_code == 0 and file.exists() and "swap" not in result.output


@pytest.mark.usefixtures("gpu")
def test_kernels_are_added_to_the_table_of_the_gpu(run, tmp_path):
    for _ in range(2):
        result = run("--only", "kernels")
        assert result.exit_code == 0, result.output
        assert "1 calls were measured" in result.output
    table = json.loads((tmp_path / "kernels/fake-gpu.json").read_text())
    (of_kind,) = table["kinds"].values()
    assert of_kind["measured"] == [[1024, 1024, 32, 2.0]]
    assert table["gpu"] == "Fake GPU" and table["memory_bandwidth"] == 3e6


def test_a_measurement_replaces_that_of_the_same_call_alone():
    known = measuring.merged({}, [row(8, 8, 1, us=1.0), row(16, 16, 1, us=2.0)])
    kinds = measuring.merged(known, [row(16, 16, 1, us=3.0), row(us=4.0, kind="mul")])
    assert kinds["add 2 float32 dense"]["measured"] == [[8, 8, 1, 1.0], [16, 16, 1, 3.0]]
    assert kinds["mul"]["measured"] == [[1024, 1024, 32, 4.0]]


@pytest.mark.filterwarnings("ignore:var_mean")
def test_every_case_that_is_measured_is_a_call_that_pytorch_takes(monkeypatch):
    size = Draw.size
    monkeypatch.setattr(
        Draw, "size", lambda draw, low, high, *more: size(draw, low, max(low, min(high, 32)), *more)
    )
    draw = Draw(torch.device("cpu"), seed=0)
    for group in (pointwise, along, networks):
        for case in group.cases():
            case.make(draw)()


@pytest.mark.usefixtures("gpu")
def test_an_unknown_part_is_answered_with_the_known_ones(run, parts):
    parts(swap="fake_parts:swap")
    result = run("--only", "swaps")
    assert result.exit_code == 2 and not result.stdout
    assert result.stderr == "calibration 'swaps' is unknown: choose one of cost, kernels, swap\n"


@pytest.mark.usefixtures("gpu")
def test_a_file_for_what_is_not_measured_is_refused(run, parts, file):
    parts(swap="fake_parts:swap")
    result = run("--only", "swap", "--output", str(file))
    assert result.exit_code == 2 and not file.exists()
    assert "--output names the file of the cost model" in result.stderr


def test_a_gpu_without_the_batch_call_is_measured_all_the_same(gpu, run, parts, file):
    gpu.has_copy_batch = False
    result = run("--output", str(file))
    assert result.exit_code == 0 and file.exists()
    assert "no batch copy here" in result.output


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_gpu_that_cannot_be_had_is_said_in_a_sentence(run, monkeypatch, error):
    def none_there(name):
        raise error("DEBUBBLE_GPU_MEMORY 'much' is no limit")

    monkeypatch.setattr(command, "accelerator", none_there)
    result = run()
    assert result.exit_code == 2 and not result.stdout
    assert result.stderr == (
        "calibration measures a real GPU: DEBUBBLE_GPU_MEMORY 'much' is no limit\n"
    )


@pytest.mark.parametrize("group", ["debubble.calibrations", "debubble.calibrated"])
def test_a_checkout_has_parts_of_its_own_installed_or_not(monkeypatch, group):
    monkeypatch.setattr(registered_module, "entry_points", lambda group: [])
    (point,) = registered(group).values()
    assert point.name == "crossover" and callable(point.load())


def test_without_an_installation_and_a_checkout_nothing_is_registered(monkeypatch, tmp_path):
    monkeypatch.setattr(registered_module, "entry_points", lambda group: [])
    monkeypatch.setattr(registered_module, "PROJECT", tmp_path / "pyproject.toml")
    assert registered("debubble.calibrations") == {}


def test_what_the_environment_has_comes_as_well(monkeypatch):
    point = EntryPoint("swap", "fake_parts:swap", "debubble.calibrations")
    monkeypatch.setattr(registered_module, "entry_points", lambda group: [point])
    assert registered("debubble.calibrations").keys() == {"crossover", "swap"}


@pytest.mark.parametrize("path", sorted(CALIBRATIONS.glob("*.json")), ids=lambda path: path.stem)
def test_a_cost_model_that_is_shipped_is_named_for_its_gpu_and_can_be_chosen(path, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_CALIBRATION", path.stem)
    assert slug(CostModel.load().gpu) == path.stem


def test_sim_stays_an_h200_whatever_else_is_shipped(monkeypatch):
    monkeypatch.delenv("DEBUBBLE_CALIBRATION", raising=False)
    assert CostModel.load().gpu == "NVIDIA H200"
    assert CostModel.load("nvidia-h100-80gb-hbm3").gpu == "NVIDIA H100 80GB HBM3"


@pytest.mark.sim
def test_sim_has_nothing_to_measure(run, parts):
    parts(swap="fake_parts:swap")
    result = run("--only", "swap")
    assert result.exit_code == 2
    assert result.stderr.startswith("calibration measures a real GPU: ")


def test_the_constants_of_small_copies_are_those_that_the_cost_model_takes():
    slow_below = {size: 2.0 if size < 28 * 1024 else 1.3 for size in SIZES}
    pieces = SimpleNamespace(host_us_by_size=lambda: slow_below, engine_us=lambda: 0.123456)
    measured = dict(calibration.small_copies(pieces))
    assert measured == {
        "batch_cliff_bytes": 28 * 1024,
        "small_piece_call_us": 2.0,
        "large_piece_call_us": 1.3,
        "piece_us": 0.123456,
    }
    cost = calibration.cost_model("Fake GPU", CONSTANTS | measured)
    assert (cost.batch_cliff_bytes, cost.piece_us) == (28 * 1024, 0.1235)


@pytest.mark.parametrize("kib", [8, 28, 64])
def test_the_cliff_is_found_in_noise(kib):
    noise = [0.05, -0.1, 0.1, 0.0, -0.05, 0.15, -0.15, 0.02]
    host_us = {
        size: (2.0 if size < kib * 1024 else 1.3) + noise[i % len(noise)]
        for i, size in enumerate(SIZES)
    }
    assert cliff(host_us) == kib * 1024
    assert SIZES[0] == 4 * 1024 and SIZES[-1] == 64 * 1024


@pytest.mark.gpu
def test_on_a_gpu_every_constant_of_a_cost_model_is_measured():
    gpu = debubble.accelerator("cuda")
    assert dict(calibration.calibrate(gpu)).keys() == CONSTANTS.keys()


@pytest.mark.gpu
def test_on_a_gpu_kernels_belong_to_the_operator_that_launches_them():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    one, two = calls_of([lambda: torch.softmax(x, -1).sum().backward(), lambda: x.detach() + 1])
    assert [call.name for call in two if call.work] == ["add.Tensor"]
    names = [call.name for call in one if call.work]
    assert names[:2] == ["_softmax", "sum"] and "_softmax_backward_data" in names
