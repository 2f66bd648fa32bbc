"""The catalogue: the entries that it reads, and its errors for wrong names and entries."""

import pytest

from debubble.exercises.kata_files.catalogue import Catalogue, Target, UnknownKata, find_catalogue
from debubble.exercises.kata_files.tables import ExerciseError

from .workbook import ENTRY


def test_a_kata_knows_its_files(workbook):
    kata = workbook.kata
    assert kata.stub_path == workbook.root / "katas" / "tiny" / "add_up.py"
    assert kata.test_path == workbook.root / "katas" / "tiny" / "test_add_up.py"
    assert kata.exported_names == ("add_up",)
    assert kata.time_limit is None


@pytest.mark.parametrize("name", ["add_up", "tiny/add_up", "katas/tiny/test_add_up.py"])
def test_a_kata_is_found_by_its_name_or_its_files(workbook, name):
    assert workbook.catalogue.kata(name).name == "add_up"


def test_an_unknown_name_suggests_the_nearest(workbook):
    with pytest.raises(UnknownKata, match="no kata 'ad_upp': did you mean 'add_up'"):
        workbook.catalogue.kata("ad_upp")


def test_the_beginning_of_a_name_suggests_the_rest(workbook):
    with pytest.raises(UnknownKata, match="no kata 'a': did you mean 'add_up'"):
        workbook.catalogue.kata("a")


def test_where_there_are_none_none_is_offered(workbook):
    workbook.write("katas/katas.toml", "")
    with pytest.raises(UnknownKata, match="no kata 'add_up': there is no other one either"):
        workbook.catalogue.kata("add_up")


def test_a_name_far_from_all_lists_what_there_is(workbook):
    with pytest.raises(UnknownKata, match="choose one of add_up"):
        workbook.catalogue.kata("zzzz")


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('hint = "There is a function for that."\n', "", "add_up: hint is missing"),
        ("[[kata]]", '[[kata]]\nhnit = "x"', r"\[\[kata\]\] add_up: 'hnit' is no key of it"),
        ("[[kata]]", '[[kata]]\nminutes = "5"', "minutes is '5': write a whole number"),
        ("[[kata]]", '[[kata]]\ndifficulty = "dull"', "choose one of easy, medium, hard"),
        ('["test_it_counts_nothing"]', '"test_it_counts_nothing"', "write a list of texts"),
        ("[[kata]]", "[kata]", r"katas/katas.toml has 'kata': its tables are \[\[kata\]\]"),
        ("[[kata]]", "kata = [1]\n[[more]]", r"has 'kata': its tables are \[\[kata\]\]"),
        ("[[kata]]", "[[exercise]]", r"has 'exercise': its tables are \[\[kata\]\]"),
        ("[[kata]]", "[[kata", "not valid TOML"),
        ("solutions.tiny.add_up:add_up", "tiny.add_up", "names nothing"),
        ("before:add_up", "before:other", "must name the same functions"),
    ],
)
def test_a_wrong_entry_says_what_is_wrong(workbook, old, new, message):
    workbook.edit("katas/katas.toml", old, new)
    with pytest.raises(ExerciseError, match=message):
        _ = workbook.catalogue.katas


def test_two_katas_of_one_name_are_refused(workbook):
    workbook.write("katas/katas.toml", ENTRY + ENTRY)
    with pytest.raises(ExerciseError, match="two katas are called 'add_up'"):
        _ = workbook.catalogue.katas


def test_the_workbook_is_found_from_a_folder_inside_it(workbook):
    assert find_catalogue(workbook.root / "katas" / "tiny").root == workbook.root


def test_elsewhere_it_is_that_of_the_checkout(tmp_path):
    names = [kata.name for kata in find_catalogue(tmp_path).katas]
    assert "keep_it_on_the_device" in names


def test_a_target_may_be_a_package(tmp_path):
    (tmp_path / "solutions" / "tiny").mkdir(parents=True)
    file = Target.parse("solutions.tiny:add_up").file(tmp_path)
    assert file == tmp_path / "solutions" / "tiny" / "__init__.py"


def test_an_empty_catalogue_has_no_katas(tmp_path):
    (tmp_path / "katas").mkdir()
    (tmp_path / "katas" / "katas.toml").write_text("")
    assert Catalogue(tmp_path).katas == ()


@pytest.mark.parametrize("kata", find_catalogue().katas, ids=lambda kata: kata.name)
def test_each_of_our_katas_says_all_that_a_learner_asks(kata):
    assert kata.minutes and kata.difficulty
    assert kata.needs and len(f"You need to know {kata.needs}.") < 200
    assert 2 <= len(kata.hints) <= 4 and all(kata.hints)
    assert kata.try_this and 1 <= len(kata.differs.splitlines()) <= 3
    lines = [*kata.differs.splitlines(), *kata.try_this.splitlines()]
    assert max(map(len, lines)) <= 78
    assert len([*kata.variants_folder.glob("*.*")]) >= 3
