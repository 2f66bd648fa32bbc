"""The benchmark of a checkpoint beside transformers: its contenders serve, and say the same."""

import json
import math
from dataclasses import replace

import pytest

from solutions.models.checkpoints.folder import CheckpointFolder
from solutions.models.checkpoints.random_folder import SHAPES, tensors_of, write_folder
from solutions.models.measure import peers, two_shapes
from solutions.models.measure.contenders import Load, Served, measure
from solutions.models.measure.peers import main, run_alone
from solutions.models.measure.step_bytes import step_bytes

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
    "name, parameters",
    [("qwen3_0.6b", 596e6), ("llama_3.2_1b", 1.236e9), ("llama_3_8b", 8.03e9)],
    ids=str,
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


def test_a_step_reads_all_weights_but_an_embedding_of_its_own_and_the_mean_keys():
    load = Load(batch=2, prompt_tokens=10, new_tokens=4)
    tiny = SHAPES["tiny"] | {"tie_word_embeddings": True}
    numbers = sum(math.prod(shape) for _, shape in tensors_of(tiny))
    tied = step_bytes(tiny, load, 1e9)
    assert tied.weights == 2 * numbers
    assert tied.keys_and_values == 2 * 12 * 2 * 2 * (2 * 16) * 2  # batch, tokens, layers, K and V
    assert tied.least_ms == pytest.approx((tied.weights + tied.keys_and_values) / 1e6)
    # A head of its own is read in place of the embedding.
    assert step_bytes(tiny | {"tie_word_embeddings": False}, load, None) == replace(
        tied, nominal_bytes_per_s=None
    )
    assert step_bytes(tiny | {"model_type": "qwen3_next"}, load, 1e9) is None


def test_the_record_has_each_contenders_share_of_the_memorys_rate(monkeypatch, folder, tmp_path):
    served = Served(1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1000.0, [1], "a test")
    monkeypatch.setattr(peers, "run_alone", lambda *arguments: served)
    monkeypatch.setattr(peers, "nominal_bytes_per_s", lambda accelerator: 1e9)
    words = [str(folder), "--only", "all", "--batch", "4", "--output", str(tmp_path)]
    assert main(words) == 0
    decode = json.loads((tmp_path / "peers_tiny.json").read_text())["decode"]
    assert decode["step_ms"] == {"all": 4.0}
    assert decode["shares"]["all"] == pytest.approx(decode["least_ms"] / 4.0)


def test_two_shapes_are_measured_on_our_engine_alone_unless_peers_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(peers, "main", lambda words: asked.append(words) or len(asked) - 1)
    monkeypatch.setattr(two_shapes, "ON_SIM", two_shapes.LOADS)
    assert two_shapes.main([]) == 1, "one of them has failed"
    assert [words[0] for words in asked] == ["qwen3_0.6b", "llama_3.2_1b"]
    for words in asked:
        assert words[-2:] == ["--only", "all"]
        assert peers._options(words).seconds == peers.SECONDS
    asked.clear()
    two_shapes.main(["--peers", "--output", "figures"])
    assert all("--only" not in words and words[-1] == "figures" for words in asked)


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
