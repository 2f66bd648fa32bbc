"""The kit has the current texts of the katas and the chapters' questions, and checks the room."""

import re
import socket

import pytest

from debubble.commands.board.questions import cells_of
from debubble.exercises.kata_files.attempts import wrong_attempts
from debubble.exercises.kata_files.catalogue import Catalogue

pytest.importorskip("mistune", reason="slides are made where the chapters' packages are")

from workshop.kit import room
from workshop.kit.mistakes import mistakes, what_it_does
from workshop.kit.questions import asked_in, questions

from .chapters import CHAPTERS, ROOT, code, markdown, printed, widget

KATAS = Catalogue(ROOT).katas
pytestmark = pytest.mark.sim


def test_every_wrong_attempt_of_every_kata_is_a_line():
    page = mistakes(KATAS)
    for kata in KATAS:
        assert f"(`{kata.name}`" in page
    attempts = [attempt for kata in KATAS for attempt in wrong_attempts(kata)]
    assert len(re.findall(r"^\| (?!what they do|---)", page, re.MULTILINE)) == len(attempts)
    assert all(what_it_does(attempt) for attempt in attempts)


def test_questions_have_their_cell_section_answer_and_reason():
    cells = [
        markdown("# 07 · Title\n\nStory."),
        code("from x import predict"),
        markdown("## 1. A wait\n\nRead this.\n\nThe loop runs twice."),
        code("q = predict('how many | waits?')\nq", widget("Predict: how many | waits?")),
        code("x = 1"),
        code("q.compare(x)\nprint(x)", widget("1 wait\nBecause it | waits."), printed("1")),
        code("w = predict_line('which?', L)\nw", widget("Predict: which?\n  ( ) a\n  ( ) b")),
        code("w.compare('b', 'It does.')", widget("b\nIt does.")),
        code("%timeit predict('no question of ours')"),
    ]
    first, second = asked_in(cells)
    assert (first.question.number, first.question.answered, first.section) == (4, 6, "1. A wait")
    assert (first.question.answer, first.question.because) == ("1 wait", "Because it | waits.")
    assert first.about == "The loop runs twice."
    assert second.question.choices == ("a", "b") and second.question.answer == "b"


def test_the_page_of_questions_answers_every_question():
    page = questions(CHAPTERS)
    rows = re.findall(r"^\| \d+ \|.*\|$", page, re.MULTILINE)
    assert len(rows) == sum(len(asked_in(cells_of(path))) for path in CHAPTERS) >= 38
    for row in rows:
        *_, answer, because = (part.strip() for part in re.split(r"(?<!\\)\|", row)[:-1])
        assert answer and because, row


@pytest.mark.browser
def test_the_certificate_prints_none_of_its_instructions():
    from ..browser.chromium import chromium

    path = ROOT / "workshop/kit/papers/certificate.html"
    with chromium() as browser:
        page = browser.new_page()
        page.goto(path.as_uri())
        assert "click into the lines" in page.inner_text("body")
        page.emulate_media(media="print")
        assert "debubble progress" not in page.inner_text("body")
        assert "has worked through chapters" in page.inner_text("body")


def test_a_room_whose_ports_are_taken_or_closed_is_said(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setenv("PORT", str(number))
        monkeypatch.setattr(room, "PORTS", 1)
        assert f"no port from {number} on answers at 127.0.0.1" in room.port()
    assert room.port() == ""
    silent = lambda *_, **about: (_ for _ in ()).throw(TimeoutError("timed out"))
    monkeypatch.setattr(room.socket, "create_connection", silent)
    assert "timed out" in room.port() and "firewall" in room.port()


def test_a_check_of_the_room_says_what_to_mend(monkeypatch, capsys):
    checks = {"a thing that is": lambda: "", "a thing that is not": lambda: "do this"}
    monkeypatch.setattr(room, "CHECKS", checks)
    assert room.main() == 1
    said = capsys.readouterr().out
    assert "ok  a thing that is" in said and "NO  a thing that is not" in said
    assert "    do this\n" in said and "1 of 2 checks failed: fix them first." in said


def test_the_rooms_kata_is_one():
    assert (ROOT / room.KATA).exists()
