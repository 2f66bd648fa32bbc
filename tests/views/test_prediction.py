"""Predictions: valid answers of a reader, and the moment at which a chapter shows the right one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from debubble.views.prediction import (
    predict,
    predict_line,
    predict_stretch,
    show_predictions,
)
from debubble.views.prediction.question import AT_ONCE, WITHHELD, Question
from debubble.views.prediction.stretch import Stretch
from tests.timeline.recordings import transformer_step

ROOT = Path(__file__).parents[2]
LINES = ("loss.item()", "loss += 1")


@pytest.fixture(autouse=True)
def a_reader_and_no_workspace(monkeypatch, tmp_path):
    monkeypatch.delenv(AT_ONCE, raising=False)
    monkeypatch.setattr(Question, "asked", [])
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shown(monkeypatch):
    """Returns a list to which `compare`, from now on, adds what it displays."""
    pages = []
    monkeypatch.setattr("debubble.views.prediction.question.display", pages.append)
    return pages


def verdict(question):
    return question.children[-1].children[-1].value


def say(question, value):
    question.field.value = value
    question.children[-1].children[0].click()


def test_the_field_is_empty():
    question = predict("how many waits?")
    assert question.field.value == ""
    say(question, "")
    assert question.guess is None and verdict(question).startswith("The field is empty")


@pytest.mark.parametrize(
    "words, low, high",
    [
        ("7", 7, 7),
        (" 40,960 ", 40960, 40960),
        ("5-9", 5, 9),
        ("5 to 9", 5, 9),
        ("-3", -3, -3),
        ("1.5 – 2", 1.5, 2),
        ("from 5 to 9", 5, 9),
    ],
)
def test_a_number_or_a_range_is_an_answer(words, low, high):
    question = predict("how many?")
    say(question, words)
    assert (question.guess.low, question.guess.high) == (low, high)


@pytest.mark.parametrize("words", ["many", "9 to 5", "7 or 8", "1,,", "5-"])
def test_anything_else_is_refused_in_a_sentence(words):
    question = predict("how many?")
    say(question, words)
    assert question.guess is None
    assert verdict(question).endswith(".")


def test_the_answer_is_kept_back_until_one_commits(shown):
    question = predict("how many?", "waits")
    question.compare(768, "One for each request.")
    (reveal,) = shown
    for text in (reveal.value, repr(reveal), reveal._repr_mimebundle_()[0]["text/plain"]):
        assert WITHHELD in text and "768" not in text and "request" not in text
    say(question, "700 to 800")
    assert "768 waits" in reveal.value and "One for each request." in reveal.value
    assert repr(reveal) == "768 waits\nOne for each request."


def test_where_nobody_reads_the_answer_is_shown_at_once(shown, monkeypatch):
    monkeypatch.setenv(AT_ONCE, "at once")
    predict("how many?").compare(3)
    assert repr(shown[0]) == "3" and "3" in shown[0].value


@pytest.mark.parametrize(
    "said, sentence",
    [
        ("3", "You said 3. That is right."),
        ("2 to 4", "You said 2 to 4. It is within your range."),
        ("5", "You said 5. What did you miss?"),
    ],
)
def test_the_answer_stands_once_and_how_the_guess_compares_with_it(shown, said, sentence):
    question = predict("how many?")
    question.compare(3, "Since it is so.")
    say(question, said)
    assert shown[0].value.split("<br>") == ["<b>3</b>", sentence, "Since it is so."]
    assert verdict(question) == f"You said {said}. See below."


ANSWERS = (
    "7", " 40,960 ", "5-9", "5 to 9", "-3", "1.5 – 2", "from 5 to 9", "900 to 700", "many",
    "7 or 8", "1,,", "5-", "", "7 waits",
)  # fmt: skip


@pytest.mark.skipif(not shutil.which("node"), reason="the site's rule is run by node")
def test_lab_and_site_judge_an_answer_by_one_rule():
    script = (ROOT / "scripts/site/browser/questions.js").as_uri()
    code = f"""
    globalThis.location = {{ pathname: "" }};
    const {{ rangeOf, refusal }} = await import({json.dumps(script)});
    const read = (words) => (refusal(words, "waits") ? null : rangeOf(words, "waits"));
    console.log(JSON.stringify({json.dumps(ANSWERS)}.map(read)));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [in_the_lab(words) for words in ANSWERS]


def in_the_lab(words):
    try:
        guess = predict("how many?", "waits").parse(words)
    except ValueError:
        return None
    return [guess.low, guess.high]


def enter(question):
    """Presses Enter in the question's text field, as the browser reports it."""
    question.field._handle_custom_msg({"event": "submit"}, [])


def test_enter_commits():
    question = predict("how many?")
    question.field.value = "3"
    enter(question)
    assert question.guess.low == 3


def test_the_first_answer_counts_and_locks_the_fields(shown, workspace):
    for question, first, second in (
        (predict("how many?"), "3", "5"),
        (predict_line("which waits?", LINES), *LINES),
        (predict_stretch("where?", 8, {}), (1.0, 2.0), (1.0, 3.0)),
    ):
        say(question, first)
        said = question.guess
        say(question, second)
        assert question.guess == said
        assert question.field.disabled and question.children[-1].children[0].disabled
    assert len(workspace.read_text().splitlines()) == 1 + 3


def test_an_answer_that_is_refused_locks_nothing():
    question = predict("how many?")
    say(question, "many")
    assert not question.field.disabled
    say(question, "3")
    assert question.guess.low == 3


@pytest.mark.parametrize(
    "unit, one, two", [("uploads", "1 upload", "2 uploads"), ("copies", "1 copy", "2 copies")]
)
def test_a_count_of_one_has_a_unit_in_the_singular(unit, one, two):
    question = predict("how many?", unit)
    assert [question.answer_in_words(n) for n in (1, 2)] == [one, two]
    assert question.parse(one).low == 1


def test_what_one_commits_to_after_the_answer_ran_counts_the_same(shown):
    early, late = predict("early?"), predict("late?")
    say(early, "3")
    for question in (early, late):
        question.compare(3)
    say(late, "3")
    assert shown[0].value == shown[1].value


def test_a_line_is_chosen_and_none_is_chosen_beforehand(shown):
    question = predict_line("which waits?", LINES)
    assert question.field.value is None
    say(question, None)
    assert question.guess is None and "Nothing is chosen" in verdict(question)
    question.compare(LINES[0])
    say(question, LINES[1])
    assert shown[0].value.startswith("<b>loss.item()</b><br>You said loss += 1. What did you miss?")


def test_an_answer_that_is_none_of_the_choices_is_refused():
    with pytest.raises(ValueError, match="none of the choices"):
        predict_line("which waits?", LINES).compare("loss.cpu()")


def test_a_stretch_is_drawn_and_what_happened_appears_on_the_drawing(shown):
    question = predict_stretch("where does it idle?", 8, {"sleep": (0, 2)})
    (known,) = question.field.timeline.events
    assert (known.name, known.start, known.end) == ("sleep", 0, 2000)
    say(question, (0.0, 0.0))
    assert question.guess is None and "Nothing is marked" in verdict(question)
    question.field.value = (2.0, 4.0)
    assert question.field.mark == [2000, 4000]
    recording = transformer_step(1)
    question.compare((2.0, 3.0), timeline=recording)
    assert question.field.facts["answer"] is None and question.field.timeline.events == [known]
    say(question, (2.0, 4.0))
    assert question.field.facts["answer"] == [2000, 3000]
    assert question.field.timeline is recording and question.field.mark == [2000, 4000]
    assert "The two overlap by 50%." in shown[0].value


def test_a_stretchs_text_has_no_times_of_this_machine(shown, monkeypatch):
    monkeypatch.setenv(AT_ONCE, "at once")
    question = predict_stretch("where does it idle?", 8, {})
    question.compare((2.0, 3.217), "Behind the copy.")
    assert not any(digit in repr(shown[0]) for digit in "0123456789")


def test_the_table_at_the_end_shows_what_was_committed_to(shown):
    first, second, third = predict("first?"), predict("second?"), predict("third?")
    say(first, "3")
    first.compare(3)
    second.compare(72)
    summary = show_predictions()
    assert "3. That is right." in summary.value
    assert "commit first" in summary.value and "72" not in summary.value
    assert "its cells have not run" in summary.value
    say(second, "70")
    assert "72. What did you miss?" in summary.value
    assert third in summary.questions and not any(n in repr(summary) for n in ("72", "70"))


def test_a_question_asked_again_takes_the_place_of_the_first():
    predict("how many?")
    again = predict("how many?")
    assert show_predictions().questions == [again]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Makes a folder with a reader's copies of the chapters, beside their progress file, and enters
    it. Returns the path of the progress file."""
    (tmp_path / "chapters").mkdir()
    progress = tmp_path / "progress.jsonl"
    progress.write_text('{"debubble": "progress", "version": 1}\n')
    monkeypatch.chdir(tmp_path / "chapters")
    monkeypatch.setenv("JPY_SESSION_NAME", "my/chapters/01_pinned_h2d.ipynb")
    return progress


def test_predictions_are_kept_in_the_workspace_and_come_back(workspace, shown):
    say(predict("how many?", "waits"), "5 to 9")
    say(predict_line("which?", LINES), LINES[1])
    say(predict_stretch("where?", 8, {}), (1.0, 2.0))
    kept = [json.loads(line) for line in workspace.read_text().splitlines()[1:]]
    assert [event["value"] for event in kept] == ["5 to 9 waits", "loss += 1", "1.00 to 2.00 ms"]
    assert {event["chapter"] for event in kept} == {"01"}

    number, line = predict("how many?", "waits"), predict_line("which?", LINES)
    assert (number.guess.low, number.guess.high) == (5, 9)
    assert line.guess == LINES[1]
    again = predict_stretch("where?", 8, {})
    assert again.guess == Stretch(1.0, 2.0) and again.field.mark == [1000, 2000]
    number.compare(7)
    assert "7 waits" in shown[0].value


@pytest.mark.parametrize("line", ["not json", '{"kind": "prediction"}', "[1]", ""])
def test_a_damaged_line_of_progress_is_passed_over(workspace, line):
    with workspace.open("a") as progress:
        progress.write(line + "\n")
    say(predict("how many?"), "4")
    assert predict("how many?").guess.low == 4


def test_what_a_question_no_longer_offers_is_forgotten(workspace):
    say(predict_line("which?", LINES), LINES[0])
    assert predict_line("which?", LINES[1:]).guess is None


def test_elsewhere_nothing_is_written(tmp_path):
    say(predict("how many?"), "4")
    assert predict("how many?").guess is None
    assert list(tmp_path.iterdir()) == []


def test_each_question_has_words_for_pages_without_a_kernel():
    for question in (predict("one?"), predict_line("two?", LINES), predict_stretch("3?", 2, {})):
        data, _ = question._repr_mimebundle_()
        assert data["text/plain"].startswith("Predict: ")
        assert "application/vnd.jupyter.widget-view+json" in data
