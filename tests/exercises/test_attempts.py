"""Wrong attempts: solutions with changed lines or definitions, which the attempt's file lists."""

import traceback

import pytest

from debubble.exercises.kata_files.attempts import one_of_each_kind, wrong_attempts
from debubble.exercises.kata_files.tables import ExerciseError
from debubble.exercises.running.under_test import KataCode, LoadError, attempt

HEADER = "Is wrong.\n\nfails: test_the_sum_is_right\nsays: returned 5\n\n"
SOLUTION = '''
from .numbers import FIRST, kept


class Sum:
    def total(self) -> int:
        return sum(self.numbers)

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers


def add_up(numbers: list[int], counter: list[int]) -> int:
    """The sum of `numbers`; nothing is appended to `counter`."""
    numbers = kept(numbers)
    return Sum(numbers).total() + FIRST
'''


@pytest.fixture
def change(workbook):
    """Returns change(name, text), which writes a wrong attempt at a solution of several
    definitions, and returns its code."""
    workbook.write("solutions/tiny/add_up.py", SOLUTION)
    numbers = "FIRST = 0\n\n\ndef kept(numbers: list[int]) -> list[int]:\n    return numbers\n"
    workbook.write("solutions/tiny/numbers.py", numbers)

    def change(name: str, text: str):
        path = workbook.root / "tests/wrong_attempts/tiny/add_up" / name
        path.write_text(text)
        return KataCode(attempt(workbook.kata, path))

    return change


@pytest.fixture
def problem(change, workbook):
    """Returns problem(name, text), which writes a faulty file of a wrong attempt, and returns the
    text of the error."""

    def problem(name: str, text: str) -> str:
        change(name, text)
        with pytest.raises(ExerciseError) as raised:
            wrong_attempts(workbook.kata)
        return str(raised.value).removeprefix("tests/wrong_attempts/tiny/add_up/")

    return problem


def diff(*changes: str) -> str:
    return HEADER + "\n\n".join(changes) + "\n"


def python(code: str) -> str:
    return f'"""{HEADER}"""\n\n\n{code}\n'


FEWER = """@@ Sum.total
-        return sum(self.numbers)
+        return sum(self.numbers[1:])"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a_method.diff", diff(FEWER)),
        ("a_line_of_the_module.diff", diff("@@\n-from .numbers import FIRST, kept\n"
            "+from .numbers import kept\n+\n+FIRST = -1")),
        ("a_line_after_another.diff", diff("@@ add_up\n     numbers = kept(numbers)\n"
            "+    del numbers[0]")),
        ("an_imported_function.py", python("def kept(numbers):\n    return numbers[1:]")),
        ("a_constant.py", python("FIRST = -1")),
        ("a_method.py", python("class Sum(Sum):\n    def total(self):\n"
            "        return super().total() - 1")),
        ("with_a_helper.py", python("def less(n):\n    return n - 1\n\n\n"
            "def add_up(numbers, counter):\n    return less(Sum(numbers).total())")),
    ],
)  # fmt: skip
def test_an_attempt_is_the_solution_but_for_what_its_file_says(change, workbook, name, text):
    assert change(name, text).add_up([1, 2, 3], []) == 5
    read = next(found for found in wrong_attempts(workbook.kata) if found.path.name == name)
    assert (read.fails, read.says) == (("test_the_sum_is_right",), ("returned 5",))


def test_two_changes_of_a_diff_may_come_in_any_order(change):
    later = "@@ add_up\n-    return Sum(numbers).total() + FIRST\n+    return -Sum(numbers).total()"
    assert change("two.diff", diff(later, FEWER)).add_up([1, 2, 3], []) == -5


def test_a_changed_line_is_quoted_as_it_ran(change):
    broken = FEWER.replace("[1:])", "[1:]) / 0")
    with pytest.raises(ZeroDivisionError) as raised:
        change("divides.diff", diff(broken)).add_up([1, 2], [])
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.line == "return sum(self.numbers[1:]) / 0"
    assert last.filename.endswith("add_up/divides.diff on the solution")


def test_a_file_of_the_learners_stands_alone(change, workbook):
    path = workbook.write("mine.py", "def add_up(numbers, counter):\n    return kept(numbers)\n")
    with pytest.raises(NameError, match="kept"):
        KataCode(attempt(workbook.kata, path)).add_up([1, 2, 3], [])


def test_an_attempt_that_does_not_fit_is_refused_when_it_is_run(change):
    with pytest.raises(LoadError, match=r"x.diff, line 6: the solution defines no 'add_upp'"):
        change("x.diff", diff("@@ add_upp\n-    pass")).add_up([1], [])


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (
            "x.diff",
            diff("@@ Sum.total\n-        return 7"),
            "x.diff, line 6: the lines without a + are not in Sum.total",
        ),
        (
            "x.diff",
            diff(FEWER, "@@ Sum\n         self.numbers = numbers", "@@\n-\n-"),
            "x.diff, line 13: solutions/tiny/add_up.py has the lines without a + 2 times: add more "
            "of them",
        ),
        ("x.diff", diff("@@ Sum.mean\n-"), "x.diff, line 6: the solution defines no 'Sum.mean'"),
        (
            "x.diff",
            diff("@@ add_up\n     numbers = kept(numbers)\n+    numbers = (\n+    ["),
            "x.diff, line 9: Python cannot read it: '[' was never closed",
        ),
        (
            "x.py",
            python("def add_up(numbers, counter):\n    return (7"),
            "Python cannot read tests/wrong_attempts/tiny/add_up/x.py, line 10: '(' was never "
            "closed",
        ),
        (
            "x.py",
            python("def add_upp(numbers, counter):\n    return 7"),
            "x.py, line 9: the solution has no 'add_upp' that it could replace, and nothing here "
            "uses it",
        ),
        ("x.diff", "Is wrong.\n\nsays: 5\n\n" + FEWER, "x.diff needs a line `fails: ...`"),
        pytest.param(
            "x.diff",
            diff(
                "@@ add_up\n     numbers = kept(numbers)\n+    numbers += [1]",
                "@@ add_up\n     numbers = kept(numbers)\n-    return Sum(numbers).total() + FIRST",
            ),
            "x.diff, line 10: this @@ and another one share 'numbers = kept(numbers)': join them",
            id="two changes that share a line",
        ),
        pytest.param("x.diff", diff("@@"), "x.diff, line 6: this @@ has no lines", id="no lines"),
    ],
)
def test_an_attempt_that_does_not_fit_is_named_with_its_line(problem, name, text, sentence):
    assert problem(name, text).startswith(sentence)


def test_one_of_each_kind_leaves_no_test_without_an_attempt_that_fails_it(workbook):
    """One of two attempts that fail the same test is left out. An attempt that fails both tests
    stands for the others."""
    attempts = wrong_attempts(workbook.kata)
    assert [found.path.stem for found in attempts] == ["counts_once", "forgets_one", "returns_text"]
    few = [found.path.stem for found in one_of_each_kind(attempts)]
    assert few == ["counts_once", "forgets_one"]
    both = ["test_the_sum_is_right", "test_it_counts_nothing"]
    workbook.attempt("returns_text", both, "returned", "    counter.append(1)\n    return 1")
    few = one_of_each_kind(wrong_attempts(workbook.kata))
    assert [found.path.stem for found in few] == ["returns_text"]
