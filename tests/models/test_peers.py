"""The benchmark of a checkpoint beside transformers: its contenders serve, and say the same."""

import json
import math

import pytest

from solutions.models.checkpoints.folder import CheckpointFolder
from solutions.models.checkpoints.random_folder import SHAPES, tensors_of, write_folder
from solutions.models.measure import peers
from solutions.models.measure.contenders import Load, Served, measure
from solutions.models.measure.peers import main, run_alone

LOAD = Load(batch=2, prompt_tokens=20, new_tokens=3, runs=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(SHAPES["tiny"], tmp_path_factory.mktemp("peers") / "tiny", shard=60_000)


def test_a_folder_of_random_weights_has_all_tensors_in_several_files(folder):
    checkpoint = CheckpointFolder.read(folder)
    shapes = {name: stored.shape for name, stored in checkpoint.tensors.items()}
    assert shapes == dict(tensors_of(SHAPES["tiny"]))
    assert len({stored.path for stored in checkpoint.tensors.values()}) > 2
    assert checkpoint.largest_file < 62_000


@pytest.mark.parametrize(
    "name, parameters", [("qwen3_0.6b", 596e6), ("llama_3_8b", 8.03e9)], ids=str
)
def test_shapes_have_as_many_parameters_as_their_models(name, parameters):
    count = sum(math.prod(shape) for _, shape in tensors_of(SHAPES[name]))
    assert count == pytest.approx(parameters, rel=0.01)


@pytest.mark.sim
def test_all_contenders_begin_their_answers_alike(accelerator, folder):
    pytest.importorskip("transformers")
    served = {
        name: measure(name, folder, LOAD, accelerator) for name in ("all", "none", "transformers")
    }
    first = served["all"]
    assert all(each.first_tokens == first.first_tokens for each in served.values())
    assert first.load_s <= first.ready_s and first.first_answer_s > 0
    assert all(each.tokens_per_s > 0 and each.first_token_ms > 0 for each in served.values())


def test_each_contender_starts_as_often_as_it_is_told(monkeypatch, capsys, folder):
    """The figures are those of the last start, or none if a later start fails."""
    starts = []

    def run_alone(name, *arguments):
        starts.append(name)
        if name == "none" and len(starts) == 5:
            raise RuntimeError("failed: the second start of none")
        return Served(len(starts), 2.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, [1], "a test")

    monkeypatch.setattr(peers, "run_alone", run_alone)
    words = [str(folder), "--only", "all", "--only", "none", "--starts", "3"]
    assert main([*words, "--output", str(folder.parent)]) == 1
    assert starts == ["all"] * 3 + ["none"] * 2
    record = json.loads((folder.parent / "peers_tiny.json").read_text())
    assert {name: each["load_s"] for name, each in record["contenders"].items()} == {"all": 3}
    assert record["failed"] == {"none": "failed: the second start of none"}


@pytest.mark.deep
def test_a_contender_that_fails_is_said_and_the_others_are_measured(tmp_path, capsys, folder):
    with pytest.raises(RuntimeError, match=r"config\.json"):
        run_alone("all", tmp_path, LOAD, 100)
    with pytest.raises(RuntimeError, match="not ready after"):
        run_alone("all", folder, LOAD, 0.01)
    words = [str(folder), "--only", "transformers", "--seconds", "0.01", "--output", str(tmp_path)]
    assert main(words) == 1
    record = json.loads((tmp_path / "peers_tiny.json").read_text())
    assert record["contenders"] == {} and "transformers" in record["failed"]
