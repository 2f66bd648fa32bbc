"""`make validate-gpu` without a GPU: what it records, and what it does when a part fails."""

import json

import pytest
import torch

from debubble.assets import slug
from tests.validation import __main__ as validation
from tests.validation import parts, record


@pytest.fixture
def two_parts(monkeypatch):
    """A validation whose first part fails and whose second passes."""
    failing = parts.Part("first", "sim", ("-c", "raise SystemExit(3)"))
    passing = parts.Part("second", "sim", ("-c", "pass"))
    monkeypatch.setattr(validation, "all_parts", lambda device, *folders: [failing, passing])


def validate(folder, *more: str) -> tuple[int, dict]:
    code = validation.main(["--device", "sim", "--assets", str(folder), *more])
    return code, json.loads((folder / "validation/sim.json").read_text())


def test_a_failing_part_is_recorded_and_the_later_ones_still_run(two_parts, tmp_path, capfd):
    code, recorded = validate(tmp_path)
    assert code == 1
    assert [(part["part"], part["status"], part["exit_code"]) for part in recorded["parts"]] == [
        ("first", "failed", 3),
        ("second", "passed", 0),
    ]
    assert recorded["finished"]
    assert len(recorded["source_sha256"]) == 64
    assert recorded["torch"] == torch.__version__
    assert "first failed" in " ".join(capfd.readouterr().out.split())


def test_a_choice_of_parts_is_not_a_finished_validation(two_parts, tmp_path):
    code, recorded = validate(tmp_path, "--only", "second")
    assert code == 0
    assert not recorded["finished"]
    assert [part["part"] for part in recorded["parts"]] == ["second"]


def test_parts_that_run_one_at_a_time_come_together_in_one_record(two_parts, tmp_path):
    validate(tmp_path, "--only", "second")
    _, recorded = validate(tmp_path, "--only", "first")
    assert [part["part"] for part in recorded["parts"]] == ["first", "second"]
    assert recorded["finished"]


def test_what_passed_on_another_source_is_not_kept(two_parts, tmp_path, monkeypatch):
    validate(tmp_path, "--only", "first")
    monkeypatch.setattr(record, "source_hash", lambda root: "of an edited source")
    _, recorded = validate(tmp_path, "--only", "second")
    assert [part["part"] for part in recorded["parts"]] == ["second"]
    assert not recorded["finished"]


def test_an_unknown_part_is_refused_with_the_names_there_are(two_parts, tmp_path, capsys):
    with pytest.raises(SystemExit):
        validate(tmp_path, "--only", "third")
    assert "no part is called 'third'; there are first, second" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_cuda_is_refused_where_there_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert validation.main(["--assets", str(tmp_path)]) == 2
    assert "No CUDA GPU here" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_tests_are_counted_with_the_reasons_of_the_skipped(tmp_path):
    (tmp_path / "test_three.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "def test_elsewhere(): pytest.skip('needs the moon')\n"
    )
    (tmp_path / "test_whole_module.py").write_text(
        "import pytest\npytest.importorskip('a_moon', reason='has no moon')\n"
    )
    result = parts.run(parts.Part("three", "sim", parts.pytest(str(tmp_path))))
    assert (result["passed"], result["failed"], result["skipped"]) == (1, 1, 2)
    assert result["failures"][0].endswith("test_bad")
    assert result["skipped_because"] == ["has no moon", "needs the moon"]
    assert result["status"] == "failed"


def test_a_part_that_skips_everything_has_not_passed(tmp_path):
    (tmp_path / "test_none.py").write_text(
        "import pytest\ndef test_elsewhere(): pytest.skip('needs the moon')\n"
    )
    result = parts.run(parts.Part("none", "sim", parts.pytest(str(tmp_path))))
    assert (result["exit_code"], result["status"]) == (0, "failed")


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("Tesla T4", "tesla-t4"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
    ],
)
def test_files_are_named_after_the_gpu(gpu, name):
    assert slug(gpu) == name


def test_the_source_hash_changes_with_the_source_and_only_with_it(tmp_path):
    source = tmp_path / "debubble/clock.py"
    source.parent.mkdir()
    source.write_text("tick = 1\n")
    before = record.source_hash(tmp_path)

    cache = tmp_path / "debubble/__pycache__/clock.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"compiled")
    (tmp_path / "README.md").write_text("no source")
    assert record.source_hash(tmp_path) == before

    source.write_text("tick = 2\n")
    assert record.source_hash(tmp_path) != before


def test_what_a_notebook_stored_is_no_part_of_its_source(tmp_path):
    notebook = tmp_path / "chapters/00.ipynb"
    notebook.parent.mkdir()
    hashes = []
    for source, count in (("1 + 1", 1), ("1 + 1", 2), ("1 + 2", 2)):
        cell = {"cell_type": "code", "source": source, "execution_count": count, "outputs": []}
        notebook.write_text(json.dumps({"cells": [cell]}))
        hashes.append(record.source_hash(tmp_path))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_record_replaces_the_old_one_in_one_step(tmp_path):
    path = tmp_path / "validation/sim.json"
    record.write({"finished": False}, path)
    record.write({"finished": True}, path)
    assert json.loads(path.read_text()) == {"finished": True}
    assert list(path.parent.iterdir()) == [path]
