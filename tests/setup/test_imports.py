"""The check of imports reports each circle, and each import of the public face from below it."""

import pytest

from tests.setup.import_graph import circles, offences, read_graph


def test_no_file_imports_in_a_circle_or_the_public_face_from_below_it():
    assert offences() == []


@pytest.fixture
def tree(tmp_path):
    """Returns write(**files), which writes files {name: source} below a temporary folder and
    returns the folder. `a__b` is the file a/b.py."""

    def write(**files):
        for package in ("debubble", "solutions"):
            (tmp_path / package).mkdir(exist_ok=True)
        for name, source in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        return tmp_path

    return write


def test_an_import_counts_wherever_in_a_file_it_stands(tree):
    lazily = "def later():\n    from . import last\n"
    for_types = "if TYPE_CHECKING:\n    from solutions.story.middle import Word\n"
    root = tree(
        solutions__story__first=for_types,
        solutions__story__middle=lazily,
        solutions__story__last="from . import first\n",
    )
    first, middle, last = (f"solutions.story.{name}" for name in ("first", "middle", "last"))
    assert circles(read_graph(root)) == [[first, middle, last, first]]


def test_two_circles_that_share_no_file_are_two(tree):
    root = tree(
        solutions__one="from . import two\n",
        solutions__two="from . import one\n",
        solutions__red="import solutions.blue\n",
        solutions__blue="import solutions.red, solutions.one\n",
    )
    assert [len(circle) - 1 for circle in circles(read_graph(root))] == [2, 2]


def test_the_public_face_is_no_place_to_import_from(tree):
    root = tree(debubble__sim__device="import debubble\n", debubble__cli="import debubble\n")
    (root / "debubble/__init__.py").touch()
    assert offences(root) == ["debubble.sim.device imports debubble, the public face"]
