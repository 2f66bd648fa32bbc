"""Loading the code under test: fresh, by name, and short when it can't be loaded."""

import pytest

from debubble.workshop.running.under_test import KataCode, LoadError, attempt, learner, solution


def load_error(workbook) -> str:
    with pytest.raises(LoadError) as raised:
        learner(workbook.kata).load()
    return str(raised.value)


def test_the_learners_function_is_an_attribute(workbook):
    counter = []
    assert KataCode(learner(workbook.kata)).add_up([1, 2], counter) == 3
    assert counter == [1, 2]


def test_the_solution_stands_in_for_it(workbook):
    counter = []
    assert KataCode(solution(workbook.kata)).add_up([1, 2], counter) == 3
    assert counter == []


def test_an_attempt_stands_in_for_it(workbook):
    path = workbook.root / "tests" / "wrong_attempts" / "tiny" / "add_up" / "forgets_one.py"
    assert KataCode(attempt(workbook.kata, path)).add_up([1, 2], []) == 2


def test_globals_do_not_pass_from_one_test_to_the_next(workbook):
    workbook.stub.write_text("seen = []\n\n\ndef add_up(numbers, counter):\n    return seen\n")
    KataCode(learner(workbook.kata)).add_up([], []).append(1)
    assert KataCode(learner(workbook.kata)).add_up([], []) == []


def test_a_syntax_error_shows_the_line_and_the_place(workbook):
    workbook.edit_stub("total = 0", "total = (0")
    assert load_error(workbook) == (
        "Python cannot read katas/tiny/add_up.py, line 16: '(' was never closed.\n\n"
        "    total = (0\n"
        "            ^"
    )


def test_an_indentation_error_reads_the_same(workbook):
    workbook.edit_stub("    total = 0", "      total = 0")
    assert "katas/tiny/add_up.py, line 16: unexpected indent" in load_error(workbook)


def test_an_import_that_fails_quotes_its_line(workbook):
    workbook.edit_stub("def add_up", "import no_such_thing\n\n\ndef add_up")
    assert load_error(workbook) == (
        "Loading katas/tiny/add_up.py, line 14 raised ModuleNotFoundError: "
        "No module named 'no_such_thing'\n\n    import no_such_thing"
    )


def test_a_file_that_is_no_python_is_refused(workbook):
    path = workbook.root / "attempt.txt"
    path.write_text("def add_up(numbers, counter):\n    return 6\n")
    with pytest.raises(LoadError, match=r"attempt.txt is no Python file: its name ends with .py"):
        attempt(workbook.kata, path).load()


def test_a_function_that_is_gone_is_named_with_the_way_back(workbook):
    workbook.edit_stub("def add_up", "def add_upp")
    assert "katas/tiny/add_up.py has no 'add_up'" in load_error(workbook)
    assert "debubble reset add_up" in load_error(workbook)


def test_a_stub_that_is_gone_is_named_with_the_way_back(workbook):
    workbook.stub.unlink()
    assert "is not there" in load_error(workbook) and "debubble reset" in load_error(workbook)
