"""`check` finds each kind of fault: each test spoils one thing of a sound workbook."""

import os

import pytest

from debubble.accelerator import current
from debubble.exercises.proof.check import check


@pytest.fixture
def problems(workbook, monkeypatch):
    """Returns problems(**options), which runs `check` on the tiny workbook, and returns the failed
    claims as "subject: problem"."""
    monkeypatch.setenv("DEBUBBLE_DEVICE", os.environ.get("DEBUBBLE_DEVICE", "auto"))

    def problems(**options) -> list[str]:
        verdicts = check(workbook.catalogue, current().name, **options)
        return [f"{v.subject}: {v.problem}" for v in verdicts if not v.holds]

    return problems


def one(found: list[str]) -> str:
    assert len(found) == 1, found
    return found[0]


def test_a_workbook_that_is_right_has_no_problems(problems):
    assert problems() == []


def test_progress_reaches_the_number_of_trials(workbook, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    seen = []
    check(workbook.catalogue, current().name, lambda done, of, doing: seen.append((done, of)))
    assert seen[-1] == (5, 5)


def test_no_kata_proves_nothing(problems, workbook):
    workbook.write("katas/katas.toml", "")
    assert "lists no kata: nothing was proved" in problems()[0]


def test_a_stub_that_passes_is_found(problems, workbook):
    workbook.edit("solutions/tiny/before.py", "        counter.append(number)\n", "")
    workbook.files.write_all()
    assert one(problems()) == (
        "stub: test_it_counts_nothing passes on the stub, but katas.toml says that it fails"
    )


def test_a_stub_that_fails_more_than_it_should_is_found(problems, workbook):
    workbook.edit("solutions/tiny/before.py", "total = 0", "total = 1")
    workbook.files.write_all()
    assert "test_the_sum_is_right fails on the stub, but katas.toml does not say so" in one(
        problems()
    )


@pytest.mark.deep
def test_a_stub_that_fails_by_an_error_is_found(problems, workbook):
    workbook.edit("katas/tiny/test_add_up.py", "if counter:", "if counter and 1 / 0:")
    assert "fails on the stub by an error and not by a claim" in problems()[0]


@pytest.mark.deep
def test_a_stub_may_fail_two_tests_for_one_reason(problems, workbook):
    test = workbook.root / "katas" / "tiny" / "test_add_up.py"
    again = test.read_text().partition("def test_it_counts_nothing")[2]
    test.write_text(f"{test.read_text()}\n\ndef test_it_counts_nothing_again{again}")
    both = '["test_it_counts_nothing", "test_it_counts_nothing_again"]'
    workbook.edit("katas/katas.toml", '["test_it_counts_nothing"]', both)
    attempt = "tests/wrong_attempts/tiny/add_up/counts_once.py"
    workbook.edit(attempt, "says:", "fails: test_it_counts_nothing_again\nsays:")
    assert problems() == []


@pytest.mark.deep
def test_a_kata_with_nothing_to_solve_is_found(problems, workbook):
    workbook.edit("katas/katas.toml", '["test_it_counts_nothing"]', "[]")
    assert "stub_fails is empty" in one(problems())


@pytest.mark.deep
def test_a_test_that_does_not_exist_is_found(problems, workbook):
    workbook.edit("katas/katas.toml", "test_it_counts_nothing", "test_it_counts")
    assert "names the test test_it_counts, but there is none" in one(problems())


def test_a_solution_that_fails_is_found(problems, workbook):
    workbook.edit("solutions/tiny/add_up.py", "return sum(numbers)", "return 7")
    found = one(problems())
    assert found.startswith("solution: test_the_sum_is_right fails on the solution")
    assert "Your code returned 7." in found


def test_a_solution_that_fails_without_a_claim_is_told_by_the_error(problems, workbook):
    claim = 'expect_equal(kata.add_up([1, 2, 3], []), 6, call="add_up([1, 2, 3])")'
    workbook.edit("katas/tiny/test_add_up.py", claim, "assert kata.add_up([1], []) == 7")
    assert any("fails on the solution: assert 1 == 7" in problem for problem in problems())


def test_a_wrong_attempt_that_passes_is_found(problems, workbook):
    workbook.attempt("forgets_one", ["test_the_sum_is_right"], "5", "    return sum(numbers)")
    found = one(problems())
    assert found.startswith("attempt forgets_one: test_the_sum_is_right passes on tests/wrong_")


def test_a_wrong_attempt_with_another_diagnosis_is_found(problems, workbook):
    workbook.edit("tests/wrong_attempts/tiny/add_up/forgets_one.py", "returned 5", "returned 4")
    assert "is not told 'returned 4', but: Expected add_up([1, 2, 3]) to return 6." in one(
        problems()
    )


def test_a_wrong_attempt_that_never_ends_is_stopped(problems, workbook):
    workbook.edit("katas/katas.toml", "stub_fails", "time_limit = 0.2\nstub_fails")
    both = ["test_the_sum_is_right", "test_it_counts_nothing"]
    workbook.attempt("loops", both, "after 0.2 s of CPU time", "    while True:\n        pass")
    assert problems() == []


@pytest.mark.deep
def test_a_wrong_attempt_without_its_marks_is_found(problems, workbook):
    attempt = "tests/wrong_attempts/tiny/add_up/forgets_one.py"
    workbook.edit(attempt, "fails: test_the_sum_is_right\n", "")
    assert "needs a line `fails: ...` in its header" in one(problems())
    workbook.edit(attempt, "says:", "tells:")
    assert "header: 'tells: returned 5' is none of `fails: TEST`, " in one(problems())


@pytest.mark.deep
def test_an_attempt_that_python_cannot_read_is_found(problems, workbook):
    workbook.attempt("forgets_one", ["test_the_sum_is_right"], "5", "    return (")
    assert "Python cannot read tests/wrong_attempts/tiny/add_up/forgets_one.py, line" in one(
        problems()
    )


@pytest.mark.deep
def test_a_before_that_python_cannot_read_is_found(problems, workbook):
    workbook.edit("solutions/tiny/before.py", "total = 0", "total = (0")
    assert "before.py, line 3: '(' was never closed" in one(problems())


@pytest.mark.deep
def test_an_attempt_for_the_other_accelerator_is_left_out(problems, workbook):
    other = "cuda" if current().name == "sim" else "sim"
    path = "tests/wrong_attempts/tiny/add_up/passes_here.py"
    workbook.attempt("passes_here", ["test_the_sum_is_right"], "5", "    return sum(numbers)")
    workbook.edit(path, "says:", f"on: {other}\nsays:")
    assert problems() == []


@pytest.mark.deep
def test_too_few_attempts_are_found(problems, workbook):
    (workbook.root / "tests/wrong_attempts/tiny/add_up/forgets_one.py").unlink()
    assert "has 2 wrong attempts" in one(problems())


def test_a_stale_stub_is_found_and_still_tried_as_it_should_be(problems, workbook):
    workbook.edit("solutions/tiny/add_up.py", "The sum of", "The whole sum of")
    assert "katas/tiny/add_up.py is older than its solution" in one(problems())


def test_a_given_file_that_somebody_edited_is_found(problems, workbook):
    workbook.write("katas/tiny/given.py", "LIMIT = 3\n")
    assert one(problems()).startswith("given: katas/tiny/given.py is not as generated: ")


def test_a_missing_stub_is_found(problems, workbook):
    workbook.stub.unlink()
    assert "katas/tiny/add_up.py is missing: `debubble check --write-stubs`" in one(problems())


def test_a_learners_edits_are_left_alone_and_told(workbook, problems):
    workbook.edit_stub("total = 0", "total = 1")
    assert problems() == []
    notes = [verdict.note for verdict in check(workbook.catalogue, current().name) if verdict.note]
    assert notes[0] == (
        "katas/tiny/add_up.py has your edits: it was left alone, and the stub as generated was "
        "tried"
    )
    assert "total = 1" in workbook.stub.read_text()
    assert "is not as generated" in one(problems(pristine=True))


@pytest.mark.deep
def test_a_stub_that_nobody_recorded_is_found(problems, workbook):
    (workbook.root / "katas" / "stubs.json").unlink()
    assert "is not in katas/stubs.json" in one(problems())


def test_an_empty_hint_is_found(problems, workbook):
    workbook.edit("katas/katas.toml", "There is a function for that.", " ")
    assert "its hint in katas.toml is empty" in one(problems())


@pytest.mark.deep
def test_a_kata_without_tests_is_found(problems, workbook):
    (workbook.root / "katas" / "tiny" / "test_add_up.py").unlink()
    assert "test_add_up.py is missing: it has no tests" in one(problems())


@pytest.mark.deep
def test_a_test_without_the_kata_is_found(problems, workbook):
    workbook.edit("katas/tiny/test_add_up.py", "test_it_counts_nothing(kata)", "test_it_counts()")
    assert "test_it_counts does not take the `kata` fixture" in one(problems())


@pytest.mark.deep
def test_tests_that_cannot_be_imported_are_found(problems, workbook):
    workbook.edit("katas/tiny/test_add_up.py", "import Diagnosis", "import Nothing")
    assert "cannot import name 'Nothing'" in one(problems())


@pytest.mark.deep
@pytest.mark.parametrize("path", ["katas/tiny/add_upp.py", "katas/test_old.py"])
def test_a_stray_file_in_the_katas_is_found(problems, workbook, path):
    workbook.write(path, "")
    assert f"{path} belongs to no kata" in one(problems())


@pytest.mark.deep
def test_an_attempt_at_no_kata_is_found(problems, workbook):
    workbook.write("tests/wrong_attempts/tiny/add_upp/x.py", "")
    assert "add_upp/x.py is an attempt at no kata" in one(problems())


@pytest.mark.deep
def test_changed_lines_of_no_kata_are_found(problems, workbook):
    workbook.write("tests/wrong_attempts/tiny/add_upp/x.diff", "")
    assert "add_upp/x.diff is an attempt at no kata" in one(problems())
