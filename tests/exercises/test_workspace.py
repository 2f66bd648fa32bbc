"""The learner's workspace: the right file is tested, and no learner's file is lost."""

import errno
import json

import pytest

from debubble.exercises.kata_files.progress import Progress
from debubble.exercises.kata_files.tables import ExerciseError
from debubble.exercises.kata_files.workspace import Workspace
from debubble.exercises.running.under_test import LoadError, learner
from debubble.progress.file import MOST_BYTES


@pytest.fixture
def workspace(workbook):
    return Workspace(workbook.root)


@pytest.fixture
def progress(workspace):
    return Progress(workspace)


def test_without_a_copy_the_stub_is_tested(workbook, workspace):
    assert learner(workbook.kata).shown_path == "katas/tiny/add_up.py"
    assert workspace.is_untouched(workbook.kata)


def test_the_copy_is_tested_where_there_is_one(workbook, workspace):
    assert workspace.begin(workbook.kata)
    assert learner(workbook.kata).shown_path == "my/katas/tiny/add_up.py"
    assert workspace.is_untouched(workbook.kata)
    assert not workspace.begin(workbook.kata)


def test_a_copy_begins_with_what_was_edited_in_the_stub(workbook, workspace):
    workbook.edit_stub("total = 0", "total = 1")
    workspace.begin(workbook.kata)
    assert "total = 1" in workspace.copy_of(workbook.kata).read_text()
    assert not workspace.is_untouched(workbook.kata)


def test_the_environment_names_another_folder(workbook, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("DEBUBBLE_WORKSPACE", str(folder))
    Workspace(workbook.root).begin(workbook.kata)
    assert (folder / "katas" / "tiny" / "add_up.py").is_file()
    assert not (workbook.root / "my").exists()


def test_two_files_of_one_kata_are_told(workbook, workspace):
    workspace.begin(workbook.kata)
    workbook.edit_stub("total = 0", "total = 1")
    assert [*workspace.remarks(workbook.catalogue)] == [
        "my/katas/tiny/add_up.py is tested, and your other version in katas/tiny/add_up.py is "
        "not: keep one of them"
    ]


def test_a_file_that_was_renamed_is_told(workbook, workspace):
    workspace.begin(workbook.kata)
    copy = workspace.copy_of(workbook.kata)
    copy.rename(copy.with_name("add_upp.py"))
    assert [*workspace.remarks(workbook.catalogue)] == [
        "my/katas/tiny/add_upp.py is no kata's, and is not tested: did you mean 'add_up'?"
    ]


def test_a_file_that_cannot_be_read_is_a_sentence(workbook, workspace):
    workspace.copy_of(workbook.kata).mkdir(parents=True)
    with pytest.raises(LoadError, match=r"my/katas/tiny/add_up.py can't be read: Is a directory"):
        learner(workbook.kata).load()


def test_a_stub_that_is_gone_can_still_be_begun(workbook, workspace):
    workbook.stub.unlink()
    workspace.begin(workbook.kata)
    assert "total = 0" in workspace.copy_of(workbook.kata).read_text()


def test_where_nothing_can_be_written_a_sentence_says_so(workbook, workspace, progress):
    workspace.folder.write_text("a file where the folder should be")
    for write in (
        lambda: workspace.begin(workbook.kata),
        lambda: progress.add("hint", workbook.kata, step=1),
    ):
        with pytest.raises(ExerciseError, match=r"can't be written .*DEBUBBLE_WORKSPACE"):
            write()


def test_what_happened_is_remembered_in_its_order(workbook, progress):
    progress.add("begun", workbook.kata)
    progress.add("hint", workbook.kata, step=2)
    progress.add("attempt", workbook.kata, verdict="failed")
    progress.add("prediction", chapter="01", cell="waits", value=48)
    assert [event["kind"] for event in progress.events()] == [
        "begun", "hint", "attempt", "prediction"
    ]  # fmt: skip
    standing = progress.standings()["add_up"]
    assert (standing.state, standing.hints, standing.attempts) == ("begun", 2, 1)
    header, *_ = progress.path.read_text().splitlines()
    assert json.loads(header) == {"debubble": "progress", "version": 1}


def test_a_kata_stays_solved_until_it_is_reset(workbook, progress):
    for verdict in ("passed", "failed"):
        progress.add("attempt", workbook.kata, verdict=verdict)
    assert progress.standings()["add_up"].solved
    progress.add("reset", workbook.kata)
    assert not progress.standings()["add_up"].solved


@pytest.mark.deep
def test_of_a_long_progress_the_oldest_attempts_are_thinned(workbook, progress):
    progress.add("prediction", chapter="01", cell="waits", value=48)
    progress.add("attempt", workbook.kata, verdict="passed")
    line = progress.path.read_text().splitlines()[-1]
    failed = line.replace('"passed"', '"failed"')
    with progress.path.open("a") as file:
        file.write(f"{failed}\n" * (MOST_BYTES // len(failed)))
    progress.add("attempt", workbook.kata, verdict="failed", failed=["the newest"])
    assert progress.path.stat().st_size <= MOST_BYTES
    events = progress.events()
    assert events[0]["kind"] == "prediction" and events[1]["verdict"] == "passed"
    assert events[-1]["failed"] == ["the newest"]


def test_a_full_disk_loses_nothing(workbook, progress, monkeypatch):
    progress.add("hint", workbook.kata, step=1)
    before = progress.path.read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ExerciseError, match="No space left on device"):
        progress.add("hint", workbook.kata, step=2)
    assert progress.path.read_bytes() == before
    assert [*progress.path.parent.iterdir()] == [progress.path]


def test_a_progress_without_a_version_is_kept_beside_the_new_one(workbook, progress):
    old = '{"kind": "attempt", "kata": "add_up", "verdict": "passed"}\n'
    progress.path.parent.mkdir()
    progress.path.write_text(old)
    progress.add("hint", workbook.kata, step=1)
    assert progress.standings()["add_up"].solved
    assert progress.path.with_name("progress.jsonl.old").read_text() == old


def test_a_progress_of_a_newer_version_is_left_alone(workbook, progress):
    progress.path.parent.mkdir()
    progress.path.write_text('{"debubble": "progress", "version": 2}\n')
    with pytest.raises(ExerciseError, match="is of version 2, and this debubble knows 1"):
        progress.add("hint", workbook.kata, step=1)
    assert progress.path.read_text() == '{"debubble": "progress", "version": 2}\n'


def test_a_line_that_is_no_event_is_passed_over_and_kept(workbook, progress):
    progress.add("hint", workbook.kata, step=1)
    with progress.path.open("a") as file:
        file.write('{"kind": "attempt", "ka\n')
    progress.add("hint", workbook.kata, step=2)
    assert progress.standings()["add_up"].hints == 2
    assert '{"kind": "attempt", "ka\n' in progress.path.read_text()


def test_no_backup_takes_the_place_of_another(workbook):
    for number, name in enumerate(("add_up.py.bak", "add_up.py.bak2", "add_up.py.bak3")):
        workbook.edit_stub("total = 0", f"total = {number + 1}")
        assert workbook.files.restore(workbook.kata).name == name
    assert "total = 1" in (workbook.stub.parent / "add_up.py.bak").read_text()
