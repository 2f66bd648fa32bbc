"""The loader of the code under test: fresh code, by name, and a short error if it can't be
loaded."""

import pytest

from debubble.exercises.kata_files.catalogue import find_catalogue
from debubble.exercises.running.under_test import (
    Implementation,
    KataCode,
    LoadError,
    attempt,
    learner,
    solution,
)


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


@pytest.mark.parametrize(
    ("line", "raised"),
    [
        ("open('gone')", "FileNotFoundError: [Errno 2] No such file or directory: 'gone'"),
        ("exec('x = = 3')", "SyntaxError: invalid syntax (<string>, line 1)"),
    ],
    ids=["a file that is not there", "code that is no Python"],
)
def test_what_code_runs_into_while_it_is_loaded_is_its_own_error(workbook, line, raised):
    workbook.stub.write_text(f"import os\n{line}\n")
    sentence = f"Loading katas/tiny/add_up.py, line 2 raised {raised}\n\n    {line}"
    assert load_error(workbook) == sentence


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (b"x = 1\ny = 2\n# caf\xe9\n", ", line 3: byte 0xe9 is not valid utf-8."),
        (b"# coding: nonsense\nx = 1\n", ": unknown encoding: nonsense."),
        (b"x = '\0'\n", ": source code string cannot contain null bytes."),
    ],
    ids=["no utf-8", "an unknown encoding", "a null byte"],
)
def test_what_python_cannot_decode_is_a_sentence(workbook, code, says):
    workbook.stub.write_bytes(code)
    assert load_error(workbook) == f"Python cannot read katas/tiny/add_up.py{says}"


@pytest.mark.parametrize("character", ["\f", "\u2028"], ids=["form feed", "line separator"])
def test_lines_are_counted_as_python_counts_them(workbook, character):
    text = f'"""Doc{character}string"""\nimport torch\nboom = 1 / 0\nafter = 2\n'
    workbook.stub.write_text(text, encoding="utf-8")
    assert load_error(workbook) == (
        "Loading katas/tiny/add_up.py, line 3 raised ZeroDivisionError: division by zero\n\n"
        "    boom = 1 / 0"
    )
    workbook.stub.write_text(text.replace("boom = 1 / 0", "import solutions.tiny"))
    assert "line 3 takes our solution:\n\n    import solutions.tiny\n" in load_error(workbook)


@pytest.mark.parametrize(
    "text",
    [
        "solutions.tiny.add_up:add_up",
        "solutions/tiny/add_up.py",
        "../solutions/tiny",
        "solutions.tiny",
    ],
    ids=["a name", "a file", "a folder", "a package"],
)
def test_a_text_that_names_our_solution_is_refused(workbook, text):
    workbook.edit_stub("    total = 0\n", f"    ours = {text!r}\n    total = 0\n")
    assert load_error(workbook).startswith(
        f"katas/tiny/add_up.py, line 17 takes our solution:\n\n    ours = {text!r}\n\n"
        "The exercise is to write it yourself."
    )


@pytest.mark.parametrize(
    "text",
    [
        "solutions",
        "solutions.json",
        "my/solutions/mine.py",
        "solutions.tiny has an answer",
        "solutions/",
    ],
    ids=["a word", "a file of theirs", "a folder of theirs", "a sentence", "half a path"],
)
def test_a_text_that_names_nothing_of_ours_is_harmless(workbook, text):
    workbook.edit_stub("    total = 0\n", f"    WORDS = {{{text!r}: 1}}\n    total = 0\n")
    assert KataCode(learner(workbook.kata)).add_up([1, 2], []) == 3


@pytest.mark.parametrize(
    "code",
    [
        "from katas.offload.given import merge_adjacent",
        "from katas.offload import given as g\n\n\ndef merge_adjacent(*a):\n"
        "    return g.merge_adjacent(*a)",
        "import katas.offload.given\n\nmerge_adjacent = katas.offload.given.merge_adjacent",
        "def merge_adjacent(*a):\n    from katas.offload.given import merge_adjacent as ours",
    ],
)
def test_an_answer_that_another_exercise_is_given_is_refused(tmp_path, code):
    path = tmp_path / "merge_adjacent.py"
    path.write_text(f"{code}\n")
    merging = find_catalogue().kata("merge_adjacent")
    with pytest.raises(LoadError, match=r"(?s)takes our solution.*merge_adjacent"):
        Implementation(merging, "learner", path).load()
    other = path.with_name("select_path.py")
    other.write_text(f"{code}\n\n\ndef select_path(*a): ...\n")
    Implementation(find_catalogue().kata("select_path"), "learner", other).load()


def test_a_choice_that_the_tests_compute_is_refused(tmp_path):
    path = tmp_path / "find_in_ranking.py"
    path.write_text("from debubble.exercises import FindIt\n")
    with pytest.raises(LoadError, match="takes our solution"):
        Implementation(find_catalogue().kata("find_in_ranking"), "learner", path).load()


def test_a_syntax_error_shows_the_line_and_the_place(workbook):
    workbook.edit_stub("total = 0", "total = (0")
    assert load_error(workbook) == (
        "Python cannot read katas/tiny/add_up.py, line 17: '(' was never closed.\n\n"
        "    total = (0\n"
        "            ^"
    )


def test_an_indentation_error_reads_the_same(workbook):
    workbook.edit_stub("    total = 0", "      total = 0")
    assert "katas/tiny/add_up.py, line 17: unexpected indent" in load_error(workbook)


def test_an_import_that_fails_quotes_its_line(workbook):
    workbook.edit_stub("def add_up", "import no_such_thing\n\n\ndef add_up")
    assert load_error(workbook) == (
        "Loading katas/tiny/add_up.py, line 15 raised ModuleNotFoundError: "
        "No module named 'no_such_thing'\n\n    import no_such_thing"
    )


def test_a_file_that_is_no_python_is_refused(workbook):
    path = workbook.root / "attempt.txt"
    path.write_text("def add_up(numbers, counter):\n    return 6\n")
    with pytest.raises(
        LoadError, match=r"attempt.txt is no Python file: give one whose name ends with .py"
    ):
        attempt(workbook.kata, path).load()


def test_a_function_that_is_gone_is_named_with_the_way_back(workbook):
    workbook.edit_stub("def add_up", "def add_upp")
    assert "katas/tiny/add_up.py has no 'add_up'" in load_error(workbook)
    assert "debubble reset add_up" in load_error(workbook)


def test_a_stub_that_is_gone_is_named_with_the_way_back(workbook):
    workbook.stub.unlink()
    assert "is not there" in load_error(workbook) and "debubble reset" in load_error(workbook)
