"""The exercises named `find_in_…`: each wrong choice gets its own reason, and the right ones are
what the recordings show."""

import re
import runpy
from pathlib import Path

import pytest

from debubble.exercises.kata_files.catalogue import Catalogue
from debubble.exercises.teaching.diagnosis import KataFailure
from debubble.exercises.teaching.find_it import PARTS, FindIt, kind_of

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = {path.stem: path for path in sorted(ROOT.glob("katas/*/recorded/*.toml"))}
PROGRAMS = [name for name, path in QUESTIONS.items() if path.with_suffix(".py").is_file()]
KATAS = [kata for kata in Catalogue(ROOT).katas if kata.name.startswith("find_in_")]
WRONG = [
    (name, part, choice)
    for name, path in QUESTIONS.items()
    for part in PARTS
    for choice in FindIt(path).reasons[part]
    if choice != FindIt(path).right(part)
]


def recorded(kata) -> FindIt:
    name = re.search(r"recorded/(\w+)\.toml", kata.test_path.read_text())[1]
    return FindIt(QUESTIONS[name])


def failure(found: FindIt, part: str, answers: object) -> str:
    with pytest.raises(KataFailure) as failed:
        found.check(part, answers)
    return " ".join(str(failed.value).split())


def test_there_is_one_for_each_chapter_from_01_on():
    assert [kata.chapter for kata in KATAS] == ["01", "02", "03", "04", "05", "06", "07"]


@pytest.mark.parametrize(("name", "part", "choice"), WRONG)
def test_a_wrong_choice_gets_its_own_reason(name, part, choice):
    found = FindIt(QUESTIONS[name])
    reason = " ".join(found.reasons[part][choice].split())
    text = failure(found, part, {part: choice})
    assert reason in text and choice in text
    others = [found.reasons[part][other] for other in found.reasons[part] if other != choice]
    assert reason not in [" ".join(other.split()) for other in others]
    right = found.right(part)
    assert not re.search(rf"(?<![\w.]){re.escape(right)}(?!\d)", text.replace(choice, ""))


def test_a_wrong_line_is_drawn_with_what_it_gained():
    text = failure(FindIt(QUESTIONS["sampling"]), "line", {"line": "sampling.py:31"})
    assert "if bool(finished.any())" in text and "stream 0" in text
    assert "it takes 3.07 ms instead of 3.15 ms." in text


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("answers", [{}, {"line": "?"}, None, "x", {"line": []}, {"line": ""}])
def test_no_answer_gets_the_choices(name, answers):
    found = FindIt(QUESTIONS[name])
    assert f"Choose one of: {', '.join(found.reasons['line'])}" in failure(found, "line", answers)


@pytest.mark.parametrize("kata", KATAS, ids=lambda kata: kata.name)
def test_the_exercise_lists_the_choices_in_their_order(kata):
    found = recorded(kata)
    docstring = re.search(r'\n    """(.+?)"""', kata.solution[0].file(ROOT).read_text(), re.DOTALL)
    for part, reasons in found.reasons.items():
        listed = re.search(rf"    {part}:((?:.+\n)(?:          .+\n)*)", docstring[1])[1]
        assert re.findall(r'"(.+?)"', listed) == [*reasons]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_line_is_the_one_that_the_program_has_there(name):
    code = QUESTIONS[name].with_suffix(".py").read_text().splitlines()
    lines = runpy.run_path(str(ROOT / "scripts/record_programs.py"))["lines_of"](QUESTIONS[name])
    assert {line["at"]: code[int(line["at"].partition(":")[2]) - 1].strip() for line in lines} == {
        line["at"]: line["code"] for line in lines
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_recording_has_the_lines_of_the_program(name):
    code = QUESTIONS[name].with_suffix(".py").read_text().splitlines()
    sources = {e.source for e in FindIt(QUESTIONS[name]).timeline.events if e.source is not None}
    own = [source for source in sources if source.place.startswith(f"{name}.py:")]
    assert own and all(source.text == code[source.line - 1].strip() for source in own)


def test_no_place_in_the_lists_is_right_more_often_than_by_chance():
    for part in PARTS:
        found = [FindIt(path) for path in QUESTIONS.values()]
        places = [[*one.reasons[part]].index(one.right(part)) for one in found]
        assert len({*places}) >= 3 and max(map(places.count, places)) <= len(places) // 2, part


def test_the_longest_wait_and_the_most_bytes_are_not_always_right():
    def most(found, amount):
        lines = found.reasons["line"]
        at = lambda line: [e for e in found.timeline.events if f"{line}:" in str(e.source)]
        return max(lines, key=lambda line: sum(amount(event) for event in at(line)))

    found = [FindIt(path) for path in QUESTIONS.values()]
    for amount in (
        lambda event: event.duration * (event.kind == "sync"),
        lambda event: event.bytes or 0,
        lambda event: 1,
    ):
        right = [most(one, amount) == one.right("line") for one in found]
        assert sum(right) <= len(right) // 2


@pytest.mark.parametrize("name", QUESTIONS)
def test_another_choice_of_the_gain_is_clearly_off(name):
    found = FindIt(QUESTIONS[name])
    gain = found.gain(found.right("line"))
    off = sorted(abs(float(choice.removesuffix("%")) - gain) for choice in found.reasons["gain"])
    assert off[0] < 1 and off[1] > 5


@pytest.mark.sim
@pytest.mark.deep(len(PROGRAMS))
@pytest.mark.parametrize("name", PROGRAMS)
def test_sim_still_says_so(name):
    """The programs, recorded again, have the same right answers."""
    found = FindIt(QUESTIONS[name])
    again = runpy.run_path(str(ROOT / "scripts/record_programs.py"))["recordings"]
    timeline, lengths = again(QUESTIONS[name])
    line = min((line for line in lengths if line), key=lengths.__getitem__)
    gain = 100 * (1 - lengths[line] / lengths[""])
    assert line == found.right("line") and kind_of(timeline, line) == found.right("kind")
    assert gain == pytest.approx(found.gain(line), abs=2)
    assert timeline.counts() == found.timeline.counts() and not timeline.hazards
