"""Lessons: the top of a lesson's folder is its story, and its diff is the lesson."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from debubble.exercises.kata_files.lessons import lessons

ROOT = Path(__file__).parents[2]
FIVE = ("pinned_h2d", "sync_free", "gdn", "flex_graph", "offload")
BEFORE_OR_EXERCISE = re.compile(r"/(before|katas)/|/before\.py$")
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ONE_FILE = (ROOT / "solutions/engine/seams.py",) * 2
"""The first and the second file for the engine's README, which is one file with both sides: the
engine has no lesson of its own."""
ALSO_BEFORE = "solutions/flex_graph/tables/step_tables.py"
"""The module from which the before.py of flex_graph imports its FlexAttentionMetadata."""


@pytest.mark.parametrize("system", FIVE)
def test_in_each_lesson_something_changes(system):
    changed = {found.name: found.changed_lines for found in lessons(ROOT, system)}
    assert changed and all(changed.values())


@pytest.mark.parametrize(
    "readme", sorted((ROOT / "solutions").glob("*/README.md")), ids=lambda path: path.parent.name
)
def test_a_readme_names_files_that_are_there(readme):
    text = DIFF.sub("", readme.read_text(encoding="utf-8"))
    named = set(re.findall(r"(?:[\w.]+/)*\w+\.py\b", text)) | set(re.findall(r"`(\w+/)`", text))
    places = (readme.parent, ROOT / "solutions", ROOT / "solutions" / "common", ROOT)
    gone = [name for name in named if not any((place / name).exists() for place in places)]
    nested = [name for name in gone if not list(readme.parent.rglob(name.rstrip("/")))]
    assert named and nested == []


@pytest.mark.parametrize("system", [*FIVE, "engine"])
def test_a_readme_shows_a_diff_of_lines_that_the_code_has(system):
    """The diff in a system's README has only lines of the code: removed lines are in a lesson's
    first file, added lines in its second, and context lines in both."""
    readme = ROOT / "solutions" / system / "README.md"
    pairs = [(found.before, found.after) for found in lessons(ROOT, system)] or [ONE_FILE]
    first, second = (lines_of(files) for files in zip(*pairs, strict=True))
    lines = "".join(DIFF.findall(readme.read_text(encoding="utf-8"))).splitlines()
    gone = {as_shown(line[1:]) for line in lines if line.startswith("-")}
    came = {as_shown(line[1:]) for line in lines if line.startswith("+")}
    stayed = {as_shown(line) for line in lines if not line.startswith(("-", "+", "@", " …"))}
    assert gone and came
    assert gone - first == came - second == stayed - (first & second) == set()


def lines_of(files):
    return {as_shown(line) for file in files for line in file.read_text("utf-8").splitlines()}


def as_shown(line):
    return " ".join(line.split())


def test_no_two_classes_have_one_name_but_the_two_sides_of_a_lesson():
    first_sides = {lesson.before.relative_to(ROOT).as_posix() for lesson in lessons(ROOT)}
    found = defaultdict(list)
    for path in sorted((ROOT / "solutions").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in first_sides or name == ALSO_BEFORE or BEFORE_OR_EXERCISE.search(name):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_what_lessons_share_imports_none_of_them():
    lesson = re.compile(r"^ *(?:from|import) (solutions(?!\.common\b)\S*|\.\.\S*)", re.MULTILINE)
    found = {
        path.relative_to(ROOT).as_posix(): lesson.findall(path.read_text(encoding="utf-8"))
        for path in (ROOT / "solutions" / "common").rglob("*.py")
    }
    assert len(found) > 10
    assert {path: imported for path, imported in found.items() if imported} == {}
