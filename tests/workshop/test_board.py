"""The board of a group shows what the learners' files say, whatever they say, and nothing
harmful."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from debubble.commands.board import safe_file
from debubble.commands.board.group import MOST_QUESTIONS, Group, Member, key_of
from debubble.commands.board.learner import plain
from debubble.commands.board.questions import answers, places
from debubble.commands.board.server import Board
from debubble.exercises.kata_files.catalogue import Catalogue
from tests.instructions import instructions_of

ROOT = Path(__file__).parents[2]
KATAS = Catalogue(ROOT).katas
FIRST, SECOND = KATAS[0].name, KATAS[1].name
QUESTION = "How many waits are there?"


def event(kind: str, minutes_ago: float = 0, **about) -> str:
    time = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return json.dumps({"kind": kind, "time": time.isoformat(timespec="seconds"), **about})


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name / "my" / "progress.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(['{"debubble": "progress", "version": 1}', *lines]) + "\n")
    return path


def shown(folder: Path, revealed=(), *, teaches=True) -> dict:
    group = Group(folder, KATAS)
    group.look()
    return json.loads(json.dumps(group.shown(dict(revealed), teaches=teaches)))


def test_who_is_where_and_for_how_long(tmp_path):
    write(
        tmp_path,
        "ada",
        event("begun", 40, kata=FIRST),
        event("attempt", 30, kata=FIRST, verdict="passed"),
        event("begun", 25, kata=SECOND),
        event("attempt", 2, kata=SECOND, verdict="failed"),
        event("hint", 1, kata=SECOND, step=1),
    )
    (row,) = shown(tmp_path)["learners"]
    assert row["states"] == {FIRST: "solved", SECOND: "begun"}
    assert (row["current"], row["minutes"], row["attempts"], row["hints"]) == (SECOND, 25, 1, 1)
    assert row["is_here"]


def test_a_learner_in_a_chapter_is_at_the_section_of_their_last_prediction(tmp_path):
    sections = places(ROOT)
    race = ("01", "Which number does step 1 find on the GPU?")
    assert sections[race].startswith("5. ")
    long = max(sections, key=lambda question: len(question[1]))
    where = {
        "in 01": [event("begun", 90, kata=FIRST), asked(race, 7)],
        "in a long question": [asked(long, 7)],
        "of another version": [asked(("03", QUESTION), 7)],
        "without JupyterLab": [asked((None, QUESTION), 7)],
        "back at a kata": [asked(race, 7), event("attempt", kata=FIRST, verdict="failed")],
        "done with a kata": [asked(race, 7), event("attempt", 3, kata=FIRST, verdict="passed")],
        "new here": [],
    }
    for name, lines in where.items():
        write(tmp_path, name, event("board", name=name), *lines)
    data = Board(Group(tmp_path, KATAS), sections=sections).data(teaches=False)
    rows = {row["who"]: (row["at"], row["minutes"]) for row in data["learners"]}
    assert rows == {
        "in 01": (f"01 · {sections[race]}", 7),
        "in a long question": (f"{long[0]} · {sections[long]}", 7),
        "of another version": ("chapter 03", 7),
        "without JupyterLab": ("a chapter", 7),
        "back at a kata": (FIRST, 0),
        "done with a kata": (f"solved {FIRST}", 3),
        "new here": ("", None),
    }
    assert [(one["kata"], one["at"]) for one in data["stops"]] == [(FIRST, 1)], "nobody who left"


def asked(question: tuple[str | None, str], minutes_ago: float) -> str:
    chapter, cell = question
    return event("prediction", minutes_ago, chapter=chapter, cell=cell, value="8")


def test_the_kata_that_keeps_most_comes_first(tmp_path):
    for n in range(3):
        write(tmp_path, f"stuck{n}", event("begun", 10 + n, kata=SECOND))
    write(tmp_path, "other", event("begun", 50, kata=FIRST))
    stops = shown(tmp_path)["stops"]
    assert [(one["kata"], one["at"], one["longest"]) for one in stops] == [
        (SECOND, 3, 12),
        (FIRST, 1, 50),
    ]


def test_nobody_is_named_who_did_not_ask_for_it(tmp_path):
    write(tmp_path, "ada", event("begun", kata=FIRST))
    write(tmp_path, "grace", event("board", name="Grace"), event("begun", kata=FIRST))
    write(tmp_path, "edsger", event("board", name="Edsger"), event("board", name=""))
    data = shown(tmp_path)
    named = {one["who"] for one in data["learners"] if one["is_named"]}
    assert named == {"Grace"}
    told = json.dumps([data["learners"], data["stops"], data["predictions"]]).lower()
    assert "ada" not in told and "edsger" not in told


def test_who_agreed_at_the_login_is_named_until_they_choose_otherwise(tmp_path):
    path = write(tmp_path, "ada", event("begun", kata=FIRST))
    group = Group(tmp_path, KATAS)
    group.members = lambda: [Member("ada", tmp_path / "ada", agreed=agreed)]
    who = lambda: (group.look(), group.shown({}, teaches=False)["learners"][0]["who"])[1]
    agreed = ""
    assert who() == "learner 1"
    agreed = "ada"  # The file is the same, and the learner has agreed since.
    assert who() == "ada"
    for name, shown_as in (("Countess", "Countess"), ("", "learner 1")):
        with path.open("a") as file:
            file.write(event("board", name=name) + "\n")
        assert who() == shown_as


def test_a_learner_chooses_their_name_on_the_command_line(tmp_path, monkeypatch):
    from debubble.commands.learning.standing import show_on_board

    monkeypatch.setenv("DEBUBBLE_WORKSPACE", str(tmp_path / "ada" / "my"))
    monkeypatch.chdir(ROOT)
    show_on_board(" Ada ")
    assert shown(tmp_path)["learners"][0]["who"] == "Ada"
    show_on_board("")
    assert shown(tmp_path)["learners"][0]["who"] == "learner 1"


def test_a_kata_over_whose_minutes_most_learners_are_comes_first(tmp_path):
    planned = KATAS[0].minutes
    for n in range(3):
        write(tmp_path, f"late{n}", event("begun", planned + 1 + n, kata=FIRST))
    for n in range(5):
        write(tmp_path, f"busy{n}", event("begun", 1, kata=SECOND))
    stops = shown(tmp_path)["stops"]
    assert [(one["kata"], one["over"], one["at"]) for one in stops] == [
        (FIRST, 3, 3),
        (SECOND, 0, 5),
    ]
    assert stops[0]["minutes"] == planned


@pytest.mark.parametrize("teaches", [True, False])
def test_the_chapters_answer_is_for_the_teacher_until_it_is_revealed(tmp_path, teaches):
    write(tmp_path, "ada", event("prediction", chapter="02", cell=QUESTION, value="8"))
    group = Group(tmp_path, KATAS)
    group.look()
    known = {key_of("02", QUESTION): "9 waits. One for each line."}
    (one,) = group.shown({}, teaches=teaches, known=known)["predictions"]
    assert one["known"] == ("9 waits. One for each line." if teaches else "")
    assert one["answer"] == ""


def test_each_question_of_the_chapters_has_an_answer_that_the_board_knows(tmp_path):
    known = answers(ROOT)
    assert len(known) >= 38
    assert known["01", "Which number does step 1 find on the GPU?"].startswith("3. A copy reads")
    long = max(known, key=lambda question: len(question[1]))
    write(tmp_path, "ada", event("prediction", chapter=long[0], cell=long[1], value="8"))
    (row,) = Board(Group(tmp_path, KATAS), answers=known).data(teaches=True)["predictions"]
    assert row["known"] == known[long] and row["question"] == long[1], "no text is cut"


def test_predictions_are_a_histogram_that_learners_see_once_it_is_revealed(tmp_path):
    for n, said in enumerate(["10 waits", "2 waits", "2 waits", "many"]):
        said_first = event("prediction", 5, chapter="02", cell=QUESTION, value="99")
        said_last = event("prediction", 1, chapter="02", cell=QUESTION, value=said)
        write(tmp_path, f"learner{n}", said_first, said_last)
    (to_teacher,) = shown(tmp_path)["predictions"]
    assert to_teacher["said"] == [["2 waits", 2], ["10 waits", 1], ["many", 1]]
    (hidden,) = shown(tmp_path, teaches=False)["predictions"]
    assert (hidden["count"], hidden["said"], hidden["revealed"]) == (4, [], False)
    revealed = {key_of("02", QUESTION): "8 waits"}
    (told,) = shown(tmp_path, revealed, teaches=False)["predictions"]
    assert told["said"] == to_teacher["said"] and told["answer"] == "8 waits"


def test_what_is_written_is_seen_the_next_time_it_is_looked_at(tmp_path):
    group = Group(tmp_path, KATAS)
    path = write(tmp_path, "ada", event("begun", kata=FIRST))
    group.look()
    with path.open("a") as file:
        file.write(event("attempt", kata=FIRST, verdict="passed") + "\n")
    group.look()
    assert group.shown({}, teaches=True)["learners"][0]["solved"] == 1
    path.unlink()
    group.look()
    assert group.shown({}, teaches=True)["learners"] == []


def test_a_file_that_did_not_change_is_not_read_again(tmp_path, monkeypatch):
    write(tmp_path, "ada", event("begun", kata=FIRST))
    group = Group(tmp_path, KATAS)
    group.look()
    monkeypatch.setattr(safe_file.os, "pread", lambda *_: pytest.fail("read again"))
    group.look()


@pytest.mark.parametrize("place", ["ada/my", "ada/debubble/my", "ada"])
def test_clones_homes_and_workspaces_are_found(tmp_path, place):
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (folder / "progress.jsonl").write_text(event("begun", kata=FIRST))
    assert len(shown(tmp_path)["learners"]) == 1


HOSTILE = {
    "HTML": event("board", name="<img src=x onerror=alert(1)>"),
    "escapes": event("board", name="\x1b]0;owned\x07\x1b[2J\u202eevil"),
    "another kind of thing": '{"kind": ["board"], "name": {}}',
    "deep": '{"kind":"board","name":' + "[" * 100_000,
    "deep and closed": '{"kind":"board","name":' + "[" * 9_000 + "]" * 9_000 + "}",
    "a large number": '{"kind":"hint","kata":"' + FIRST + '","step":1' + "0" * 10_000 + "}",
    "no number": '{"kind":"hint","kata":"' + FIRST + '","step":NaN,"time":1e999}',
    "no time": '{"kind":"begun","kata":"' + FIRST + '","time":"yesterday"}',
    "the year 9999": event("begun", kata=FIRST).replace("202", "999"),
    "no kata": event("begun", kata="../../etc/passwd"),
    "no JSON": "\x00\xff{{{",
    "a surrogate": '{"kind":"board","name":"\\ud800"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_harms_neither_the_board_nor_the_neighbour(tmp_path, name):
    write(tmp_path, "evil", HOSTILE[name], event("begun", kata=SECOND))
    write(tmp_path, "good", event("board", name="good"), event("begun", 3, kata=FIRST))
    rows = {row["who"]: row for row in shown(tmp_path)["learners"]}
    assert rows["good"]["current"] == FIRST
    (other,) = [row for who, row in rows.items() if who != "good"]
    assert other["who"].isprintable() and len(other["who"]) <= 30
    assert "\u202e" not in other["who"]
    assert other["minutes"] is None or other["minutes"] >= 0


def test_of_a_file_of_a_gigabyte_only_its_end_is_read(tmp_path, monkeypatch):
    path = write(tmp_path, "evil", event("begun", kata=FIRST))
    with path.open("r+") as file:
        file.truncate(10**9)  # takes no space on the disk
        file.seek(0, os.SEEK_END)
        file.write("\n" + event("board", name="Eve") + "\n")
    asked = []
    pread = os.pread
    monkeypatch.setattr(
        safe_file.os, "pread", lambda file, size, at: asked.append(size) or pread(file, size, at)
    )
    (row,) = shown(tmp_path)["learners"]
    assert row["who"] == "Eve" and row["is_cut"]
    assert asked == [safe_file.MOST_BYTES]


def test_questions_that_somebody_made_up_hide_none_that_the_group_was_asked(tmp_path):
    made_up = [event("prediction", chapter="00", cell=f"a{n}", value="1") for n in range(400)]
    write(tmp_path, "evil", *made_up)
    for name in ("ada", "grace"):
        write(tmp_path, name, event("prediction", chapter="06", cell=QUESTION, value="2"))
    predictions = shown(tmp_path)["predictions"]
    assert len(predictions) == MOST_QUESTIONS
    assert predictions[-1]["question"] == QUESTION and predictions[-1]["count"] == 2


def test_a_link_is_not_followed_wherever_it_stands(tmp_path):
    secret = write(tmp_path / "elsewhere", "secret", event("board", name="secret"))
    group = tmp_path / "group"
    (group / "a" / "my").mkdir(parents=True)
    (group / "a" / "my" / "progress.jsonl").symlink_to(secret)
    (group / "b").mkdir()
    (group / "b" / "my").symlink_to(secret.parent)
    (group / "c").symlink_to(secret.parent.parent)
    assert shown(group)["learners"] == []


def test_a_pipe_is_not_waited_for_and_a_folder_is_no_file(tmp_path):
    (tmp_path / "a" / "my").mkdir(parents=True)
    os.mkfifo(tmp_path / "a" / "my" / "progress.jsonl")
    (tmp_path / "b" / "my" / "progress.jsonl").mkdir(parents=True)
    assert shown(tmp_path)["learners"] == []


def test_on_the_hub_a_file_must_be_its_learners(tmp_path):
    write(tmp_path, "ada", event("begun", kata=FIRST))
    for name, owner, seen in (
        ("ada", os.getuid(), 1),
        ("ada", os.getuid() + 1, 0),
        ("grace", os.getuid(), 0),
    ):
        group = Group(tmp_path, KATAS)
        member = Member(name, tmp_path / name, owner=owner)
        group.members = lambda member=member: [member]
        group.look()
        assert len(group.shown({}, teaches=True)["learners"]) == seen, member


def look_at_group(folder: Path, learners: int) -> tuple[dict, int]:
    """Returns the board's data about so many learners, and the Python instructions that it took."""
    for n in range(learners):
        lines = [
            event("attempt", n % 60, kata=kata.name, verdict="passed" if k % 2 else "failed")
            for k, kata in enumerate(KATAS)
        ]
        said = event("prediction", chapter="00", cell=QUESTION, value=str(n % 7))
        write(folder, f"learner{n}", *lines, said)
    return shown(folder), instructions_of(lambda: shown(folder), within="/board/")


def test_ten_times_as_many_learners_are_ten_times_the_work(tmp_path):
    _, few = look_at_group(tmp_path / "few", 10)
    data, many = look_at_group(tmp_path / "many", 100)
    assert many < 11 * few
    assert len(data["learners"]) == 100
    assert sum(count for _, count in data["predictions"][0]["said"]) == 100


def test_texts_are_put_into_the_page_as_text():
    script = (ROOT / "debubble/commands/board/page.js").read_text()
    for dangerous in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert dangerous not in script


def test_plain_keeps_what_people_write():
    assert plain("Zoë  van\tDijk", 30) == "Zoë van Dijk"
    assert plain(8, 30) == "8" and plain(2.5, 30) == "2.5"
    assert plain(True, 30) == "" and plain(["x"], 30) == ""
