"""A workbook of one tiny kata, new for each test, that needs no accelerator."""

from pathlib import Path
from textwrap import dedent

from debubble.exercises.kata_files.catalogue import Catalogue
from debubble.exercises.kata_files.stubs.files import StubFiles

ENTRY = '''
[[kata]]
system = "tiny"
name = "add_up"
chapter = "00"
title = "Add up"
teaches = "to add up"
task = """Add them up without counting."""
hint = "There is a function for that."
solution = "solutions.tiny.add_up:add_up"
before = "solutions.tiny.before:add_up"
stub_fails = ["test_it_counts_nothing"]
without = ["all: it adds numbers up"]
'''

BEFORE = '''
def add_up(numbers: list[int], counter: list[int]) -> int:
    """The old docstring."""
    total = 0
    for number in numbers:
        counter.append(number)
        total += number
    return total
'''

SOLUTION = '''
def add_up(numbers: list[int], counter: list[int]) -> int:
    """The sum of `numbers`; nothing is appended to `counter`."""
    return sum(numbers)
'''

TEST = """
from debubble.exercises import Diagnosis, KataFailure, expect_equal


def test_the_sum_is_right(kata):
    expect_equal(kata.add_up([1, 2, 3], []), 6, call="add_up([1, 2, 3])")


def test_it_counts_nothing(kata):
    counter = []
    kata.add_up([1, 2, 3], counter)
    if counter:
        raise KataFailure(Diagnosis("no counting", f"counted {len(counter)} times", why="Slow."))
"""

ATTEMPTS = {
    "counts_once": (
        ["test_it_counts_nothing"],
        "counted 1 times",
        "    counter.append(0)\n    return sum(numbers)",
    ),
    "forgets_one": (
        ["test_the_sum_is_right"],
        "returned 5",
        "    return sum(numbers[1:])",
    ),
    "returns_text": (
        ["test_the_sum_is_right"],
        "returned '6'",
        "    return str(sum(numbers))",
    ),
}


class Workbook:
    """The files of a workbook with one kata below `root`, and methods to change them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("katas/katas.toml", ENTRY)
        self.write("solutions/__init__.py", "")
        self.write("solutions/tiny/__init__.py", "")
        self.write("solutions/tiny/before.py", BEFORE)
        self.write("solutions/tiny/add_up.py", SOLUTION)
        self.write("katas/tiny/test_add_up.py", TEST)
        for name, (fails, says, body) in ATTEMPTS.items():
            self.attempt(name, fails, says, body)
        self.files.write_all()

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.root)

    @property
    def files(self) -> StubFiles:
        return StubFiles(self.catalogue)

    @property
    def kata(self):
        return self.catalogue.kata("add_up")

    @property
    def stub(self) -> Path:
        return self.root / "katas" / "tiny" / "add_up.py"

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"))
        return file

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def edit_stub(self, old: str, new: str) -> None:
        self.edit("katas/tiny/add_up.py", old, new)

    def attempt(self, name: str, fails: list[str], says: str, body: str) -> Path:
        marks = "".join(f"fails: {test}\n" for test in fails)
        text = f'"""Is wrong.\n\n{marks}says: {says}\n"""\n\n\n'
        return self.write(
            f"tests/wrong_attempts/tiny/add_up/{name}.py",
            f"{text}def add_up(numbers, counter):\n{body}\n",
        )
