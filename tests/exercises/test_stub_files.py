"""Stub files: a learner's edits are told apart from an outdated stub, and survive."""

from debubble.exercises.kata_files.stubs.files import StubState


def change_solution(workbook):
    workbook.edit("solutions/tiny/add_up.py", "The sum of", "The whole sum of")


def test_a_new_stub_is_current_and_recorded(workbook):
    assert workbook.files.state(workbook.kata) is StubState.CURRENT
    assert workbook.files.is_recorded(workbook.kata)


def test_an_edit_is_the_learners(workbook):
    workbook.edit_stub("total = 0", "total = 1")
    assert workbook.files.state(workbook.kata) is StubState.EDITED


def test_a_stub_whose_solution_changed_is_stale(workbook):
    change_solution(workbook)
    assert workbook.files.state(workbook.kata) is StubState.STALE


def test_an_edit_stays_an_edit_when_the_solution_changes(workbook):
    workbook.edit_stub("total = 0", "total = 1")
    change_solution(workbook)
    assert workbook.files.state(workbook.kata) is StubState.EDITED


def test_stale_and_missing_stubs_are_written(workbook):
    change_solution(workbook)
    assert workbook.files.write_all() == [workbook.stub]
    workbook.stub.unlink()
    assert workbook.files.state(workbook.kata) is StubState.MISSING
    assert workbook.files.write_all() == [workbook.stub]
    assert workbook.files.write_all() == []


def test_an_edited_stub_is_not_written(workbook):
    workbook.edit_stub("total = 0", "total = 1")
    change_solution(workbook)
    assert workbook.files.write_all() == []
    assert "total = 1" in workbook.stub.read_text()


def test_a_learner_who_resets_a_kata_does_not_make_edited_tests_ours(workbook):
    test = workbook.root / "katas/tiny/test_add_up.py"
    test.write_text(test.read_text() + "\n# easier\n")
    workbook.files.restore(workbook.kata)
    assert workbook.files.has_edited_tests(workbook.kata)
    workbook.files.write_all()
    assert not workbook.files.has_edited_tests(workbook.kata)


def test_restoring_keeps_the_edits_beside_it(workbook):
    workbook.edit_stub("total = 0", "total = 1")
    backup = workbook.files.restore(workbook.kata)
    assert backup == workbook.stub.with_suffix(".py.bak")
    assert "total = 1" in backup.read_text()
    assert workbook.files.state(workbook.kata) is StubState.CURRENT


def test_restoring_what_nobody_edited_leaves_no_backup(workbook):
    change_solution(workbook)
    assert workbook.files.restore(workbook.kata) is None
    assert not workbook.stub.with_suffix(".py.bak").exists()


def test_the_record_forgets_katas_that_are_gone(workbook):
    workbook.edit("katas/katas.toml", 'name = "add_up"', 'name = "sum_up"')
    workbook.files.write_all()
    assert "add_up" not in (workbook.root / "katas" / "stubs.json").read_text()
