"""Cheats: a learner's code can't pass its tests by changing them or its process."""

import os
from itertools import cycle

import pytest
from typer.testing import CliRunner

from debubble.accelerator import current
from debubble.cli import app

from .test_plugin import PLUGIN

pytest_plugins = ["pytester"]

FILE = "katas/tiny/test_add_up.py"
WAYS = {
    "pytest katas": ["katas"],
    "one file": [FILE],
    "one test": [f"{FILE}::test_it_counts_nothing"],
    "debubble run": None,
}
CHEATS = {
    "import os; os._exit(0)": "Your code ended the process that ran it, with exit code 0.",
    "import sys; sys.exit(0)": "Your code raised SystemExit: 0",
    "raise SystemExit": "Your code raised SystemExit.",
    "raise KeyboardInterrupt": "Your code raised Python's KeyboardInterrupt, which ends the test.",
    "import pytest; pytest.skip()": "Your code raised pytest's Skipped, which ends the test.",
    "import pytest; pytest.exit('solved', 0)": "Your code raised pytest's Exit, which ends the",
    "from solutions.tiny.add_up import add_up as ours": "takes our solution:",
    "ours = __import__('solutions.ti' + 'ny')": "Your code imported solutions, which takes our",
    "import glob; exec(open(glob.glob('so*/t*/add_up.py')[0]).read())": (
        "Your code read solutions/tiny/add_up.py, which is our solution."
    ),
    "import debubble; debubble.record = print": "Your code replaced debubble.record.",
    "from debubble.exercises.teaching.claims import Expectation as e; e.counts = print": (
        "Your code replaced Expectation.counts."
    ),
    "import debubble.exercises as w; w.KataFailure = ValueError": (
        "Your code replaced debubble.exercises.KataFailure."
    ),
    "import test_add_up as t; t.expect_equal = print": "Your code replaced ",
    "import pytest; pytest.fail = print": "Your code replaced pytest.fail.",
    "import _pytest.runner as r; r.check_interactive_exception = print": (
        "Your code replaced _pytest.runner.check_interactive_exception."
    ),
    "import sys; sys.modules['pytest'] = None": "Your code replaced sys.modules['pytest'].",
}
SOLVED = ("        counter.append(number)\n", "")


@pytest.fixture
def passes(workbook, prepared, monkeypatch, request):
    """Returns passes(way), which runs the workbook's tests in one of the WAYS that learners have,
    and returns (exit code, output)."""
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    pytester = request.getfixturevalue("pytester")
    monkeypatch.chdir(workbook.root)
    workbook.write("pytest.ini", "[pytest]\naddopts = -p no:nbval\npythonpath = katas/tiny\n")

    def passes(way: str) -> tuple[int, str]:
        if WAYS[way] is None:
            result = CliRunner().invoke(app, ["run", "add_up"])
            return result.exit_code, result.output
        result = pytester.runpytest_inprocess(*WAYS[way], *PLUGIN, no_reraise_ctrlc=True)
        return int(result.ret), "\n".join([*result.outlines, *result.errlines])

    return passes


@pytest.mark.deep(2)
@pytest.mark.parametrize("way", WAYS)
def test_an_answer_passes_without_them(passes, workbook, way):
    workbook.edit_stub(*SOLVED)
    before = set(os.environ)
    code, text = passes(way)
    assert code == 0 and "✔ tiny/add_up" in text
    assert set(os.environ) <= before, "what pytest is told must not stay for what runs next"


@pytest.mark.deep(4)
@pytest.mark.parametrize(
    ("cheat", "way"),
    [*zip(CHEATS, cycle(WAYS)), *((cheat, way) for way in WAYS for cheat in [*CHEATS][:4])],
)
def test_a_cheat_is_a_failure_and_a_sentence(passes, workbook, cheat, way):
    workbook.edit_stub(*SOLVED)
    workbook.edit_stub("    total = 0\n", f"    {cheat}\n    total = 0\n")
    code, text = passes(way)
    assert code == 1
    assert CHEATS[cheat] in text.replace("\n", " ")
    assert "· tiny/add_up  not solved: 0 of " in text


@pytest.mark.deep(3)
@pytest.mark.parametrize("cheat", [*CHEATS][::3])
def test_it_is_one_as_well_when_the_file_is_loaded(passes, workbook, cheat):
    workbook.edit_stub(*SOLVED)
    workbook.stub.write_text(f"{cheat}\n{workbook.stub.read_text()}")
    code, text = passes("pytest katas")
    assert code == 1
    assert "· tiny/add_up  not solved: 0 of 2 tests pass" in text
