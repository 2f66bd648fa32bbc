"""Stubs: the solution's signature around the body of `before`, from one source and reproducible."""

import ast

import pytest

from debubble.exercises.kata_files.catalogue import find_catalogue
from debubble.exercises.kata_files.stubs.generate import generate
from debubble.exercises.kata_files.stubs.given import given_text
from debubble.exercises.kata_files.stubs.source import StubError
from debubble.exercises.kata_files.tables import ExerciseError

from .workbook import ENTRY

CLASSES = """
solution = "solutions.tiny.add_up:Adder"
before = "solutions.tiny.before:Adder"
"""


def with_classes(workbook, before, solution):
    text = (workbook.root / "katas" / "katas.toml").read_text().splitlines()
    kept = [line for line in text if not line.startswith(("solution", "before"))]
    workbook.write("katas/katas.toml", "\n".join(kept) + CLASSES)
    workbook.write("solutions/tiny/before.py", before)
    workbook.write("solutions/tiny/add_up.py", solution)
    return generate(workbook.kata)


@pytest.fixture
def sharing(workbook):
    """Returns the workbook with a helper that the solution and `before` both use."""
    workbook.write(
        "solutions/tiny/shared.py",
        """
        from __future__ import annotations

        from typing import NamedTuple


        class Seen(NamedTuple):
            number: int


        class Most(Seen):
            at_once = True


        def rounded(seen: Seen) -> int:
            return seen.number
        """,
    )
    for path, body in (("before", "print(most)"), ("add_up", "pass")):
        workbook.write(
            f"solutions/tiny/{path}.py",
            f"""
            from __future__ import annotations

            from .shared import Most, rounded


            def add_up(numbers: list[int], counter: list[int], most: Most = Most(3)) -> int:
                {body}
                return rounded(most)
            """,
        )
    workbook.files.write_all()
    return workbook


def test_a_stub_has_the_docstring_of_the_solution_and_the_body_of_before(workbook):
    text = generate(workbook.kata)
    assert "The sum of `numbers`" in text and "The old docstring" not in text
    assert "counter.append(number)" in text and "return sum(numbers)" not in text


def test_a_stub_says_what_to_do(workbook):
    docstring = ast.get_docstring(ast.parse(generate(workbook.kata)))
    assert docstring.startswith("Add up (chapter 00).\n\nAdd them up without counting.")
    assert ".venv/bin/pytest katas/tiny/test_add_up.py" in docstring
    assert "debubble hint add_up" in docstring


def test_a_stub_is_always_the_same(workbook):
    assert generate(workbook.kata) == generate(workbook.kata)
    assert workbook.stub.read_text() == generate(workbook.kata)


def test_what_the_body_reads_comes_along(workbook):
    workbook.write(
        "solutions/tiny/shared.py",
        """
        import math

        STEP = 2


        def rounded(number: float) -> int:
            return math.floor(number) * STEP
        """,
    )
    workbook.write(
        "solutions/tiny/before.py",
        """
        import os
        from collections import deque

        from .shared import rounded

        UNUSED = 1


        def add_up(numbers: list[int], counter: list[int]) -> int:
            # Slow on purpose.
            return sum(deque(rounded(number) for number in numbers))
        """,
    )
    text = generate(workbook.kata)
    top = "import math\nfrom collections import deque\n\nSTEP = 2\n\n\n"
    assert f"{top}# Yours to edit, from here on.\ndef rounded" in text
    assert "# Slow on purpose." in text
    assert "import os" not in text and "UNUSED" not in text and "solutions" not in text


def test_what_both_sides_share_is_imported(sharing):
    text = generate(sharing.kata)
    assert "\n\nfrom katas.tiny.given import Most, rounded\n\n\n# Yours to edit" in text
    assert "class Most" not in text and "NamedTuple" not in text
    given = sharing.root / "katas" / "tiny" / "given.py"
    lines = [line for line in given.read_text().splitlines() if line.startswith(("class", "def"))]
    assert lines == [
        "class Seen(NamedTuple):",
        "class Most(Seen):",
        "def rounded(seen: Seen) -> int:",
    ]


def test_a_helper_that_depends_on_its_file_stays_in_the_stub(sharing):
    sharing.edit("solutions/tiny/shared.py", "seen.number", "seen.number + len(PLACE)")
    sharing.edit("solutions/tiny/shared.py", "class Seen(", "PLACE = __file__\n\n\nclass Seen(")
    text = generate(sharing.kata)
    assert "PLACE = __file__" in text and "def rounded(" in text
    assert "from katas.tiny.given import Most, Seen\n" in text


def test_code_that_two_katas_are_given_under_one_name_must_be_the_same(sharing):
    other = (sharing.root / "solutions/tiny/shared.py").read_text().replace("seen.number", "7")
    sharing.write("solutions/tiny/other.py", other)
    for path in ("before", "add_up"):
        text = (sharing.root / f"solutions/tiny/{path}.py").read_text()
        sharing.write(f"solutions/tiny/more/{path}.py", text.replace(".shared", "..other"))
    more = ENTRY.replace('"add_up"', '"add_more"').replace("solutions.tiny", "solutions.tiny.more")
    sharing.write("katas/katas.toml", ENTRY + more)
    with pytest.raises(ExerciseError, match="tiny/add_more is given another rounded than"):
        sharing.files.write_all()


def test_a_stub_says_how_hard_it_is_and_what_one_should_know(workbook):
    entry = (workbook.root / "katas" / "katas.toml").read_text()
    more = 'minutes = 5\ndifficulty = "easy"\nneeds = "addition"\nstub_fails'
    workbook.write("katas/katas.toml", entry.replace("stub_fails", more))
    docstring = ast.get_docstring(ast.parse(generate(workbook.kata)))
    assert docstring.startswith("Add up (chapter 00, easy, 5 minutes).\n\nAdd them up")
    assert "\n\nYou need to know addition.\n\n" in docstring


def test_the_lines_of_a_paragraph_are_filled(workbook):
    task = "Add them up, and\nlook at none of them." + " Count." * 15 + "\n\n    and\n    this"
    workbook.edit("katas/katas.toml", "Add them up without counting.", task)
    lines = generate(workbook.kata).splitlines()
    assert "and look" in lines[2] and max(map(len, lines)) <= 100
    assert "    and" in lines and "    this" in lines


def test_a_line_goes_on_after_a_form_feed(workbook):
    before = (workbook.root / "solutions" / "tiny" / "before.py").read_text()
    expected = generate(workbook.kata)
    workbook.write("solutions/tiny/before.py", f'"""The\fold\u2028way."""\n\n\n{before}')
    assert generate(workbook.kata) == expected


def test_a_class_keeps_its_methods_and_comments(workbook):
    text = with_classes(
        workbook,
        before='''
        class Adder:
            step = 1

            # It counts.
            def __init__(self) -> None:
                self.seen = []

            def add(self, number: int) -> int:
                """Old words."""
                self.seen.append(number)
                return sum(self.seen)
        ''',
        solution='''
        class Adder:
            """Adds as it goes."""

            def __init__(self) -> None:
                """Nothing was added yet."""
                self.total = 0

            def add(self, number: int) -> int:
                """The sum of all numbers so far."""
                self._grow(number)
                return self.total

            def _grow(self, number: int) -> None:
                self.total += number
        ''',
    )
    body = text[text.index("class Adder") :]
    assert body == (
        "class Adder:\n"
        '    """Adds as it goes."""\n\n'
        "    step = 1\n\n"
        "    # It counts.\n"
        "    def __init__(self) -> None:\n"
        '        """Nothing was added yet."""\n'
        "        self.seen = []\n\n"
        "    def add(self, number: int) -> int:\n"
        '        """The sum of all numbers so far."""\n'
        "        self.seen.append(number)\n"
        "        return sum(self.seen)\n"
    )


def test_a_public_method_that_before_lacks_is_refused(workbook):
    with pytest.raises(StubError, match="lacks reset, which the solution has"):
        with_classes(
            workbook,
            before="class Adder:\n    pass\n",
            solution="class Adder:\n    def reset(self):\n        pass\n",
        )


def test_another_signature_is_refused(workbook):
    workbook.edit("solutions/tiny/add_up.py", "counter: list[int]", "counter: list")
    with pytest.raises(StubError, match="add_up has another signature"):
        generate(workbook.kata)


def test_a_solution_that_is_not_there_is_named(workbook):
    (workbook.root / "solutions" / "tiny" / "add_up.py").unlink()
    with pytest.raises(StubError, match=r"add_up\.py is not there"):
        generate(workbook.kata)
    workbook.write("solutions/tiny/add_up.py", "x = 1\n")
    with pytest.raises(StubError, match="defines no function or class 'add_up'"):
        generate(workbook.kata)


def test_a_task_that_would_break_its_docstring_is_refused(workbook):
    workbook.edit("katas/katas.toml", "without counting.", r"without \\n counting.")
    with pytest.raises(StubError, match="backslash or triple quotes"):
        generate(workbook.kata)


def imports_a_solution(text: str) -> bool:
    imports = [node for node in ast.walk(ast.parse(text)) if hasattr(node, "names")]
    modules = [getattr(node, "module", None) or node.names[0].name for node in imports]
    return any(name.startswith("solutions") for name in modules)


@pytest.mark.parametrize("kata", find_catalogue().katas, ids=lambda kata: kata.name)
def test_our_stubs_import_no_solution(kata):
    assert not imports_a_solution(generate(kata))


@pytest.mark.parametrize("system", dict.fromkeys(kata.system for kata in find_catalogue().katas))
def test_what_our_stubs_are_given_imports_no_solution(system):
    assert not imports_a_solution(given_text(find_catalogue().of_system(system)))
