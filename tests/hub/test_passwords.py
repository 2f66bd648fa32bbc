"""Passwords: the class password works once, then the learner's own, and guesses get slower."""

import json
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workshop.hub import passwords as module
from workshop.hub.names import login_name, read_names
from workshop.hub.passwords import Passwords, Patience
from workshop.hub.refusal import Refusal

pytestmark = pytest.mark.sim
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quick_hash(monkeypatch):
    monkeypatch.setattr(module, "_scrypt", lambda word, salt: (word.encode() + salt)[:32])


@pytest.fixture
def known(tmp_path):
    passwords = Passwords(tmp_path)
    passwords.prepare("teacher", "the class")
    return passwords


def test_what_was_set_is_said_once_and_kept_as_a_hash_for_its_owner_alone(tmp_path):
    passwords = Passwords(tmp_path)
    new = passwords.prepare("teacher", "")
    assert set(new) == {"class", "teacher"} and len(new["class"]) >= 20
    assert passwords.is_class(new["class"]) and passwords.is_own("teacher", new["teacher"])
    assert passwords.prepare("teacher", "") == {}
    assert stat.S_IMODE((tmp_path / "passwords.json").stat().st_mode) == 0o600


def test_a_short_class_password_is_refused(tmp_path):
    with pytest.raises(Refusal, match="HUB_PASSWORD has 4 letters: it needs 8"):
        Passwords(tmp_path).prepare("teacher", "1234")


def test_who_chose_a_password_is_nobody_elses_to_be(known):
    assert known.choose("ada", "my own word")
    assert not known.choose("ada", "somebody else's")
    assert known.is_own("ada", "my own word") and not known.is_own("ada", "somebody else's")
    assert known.forget("ada") and not known.has_own("ada")


def test_a_learner_is_named_on_the_board_if_they_agreed(known):
    assert known.choose("ada", "my own word", agrees=True)
    assert known.choose("grace", "my own word")
    assert known.named() == {"ada"}
    known.forget("ada")
    assert known.choose("ada", "another word")
    assert known.named() == set(), "they may choose again with a new password"


def test_a_whole_class_chooses_at_once(known):
    names = [f"learner{n}" for n in range(60)]
    with ThreadPoolExecutor(20) as several:
        list(several.map(lambda name: known.choose(name, f"word of {name}"), names))
    assert all(known.is_own(name, f"word of {name}") for name in names)
    assert json.loads(known.file.read_text())["own"].keys() == {*names, "teacher"}


def test_forget_beside_a_running_hub_loses_nobodys_password(tmp_path):
    """All passwords that are chosen while another process runs `forget` are kept, although both
    rewrite one file."""
    Passwords(tmp_path).prepare("teacher", "the class")
    forgets = (
        "import sys; from pathlib import Path; from workshop.hub.passwords import Passwords\n"
        "for n in range(60): Passwords(Path(sys.argv[1])).forget(f'gone{n}')"
    )
    names = [f"learner{n}" for n in range(60)]
    with subprocess.Popen([sys.executable, "-c", forgets, str(tmp_path)], cwd=ROOT) as beside:
        rounds = 0
        while beside.poll() is None:
            for name in names:
                Passwords(tmp_path).forget(name)
                Passwords(tmp_path).choose(name, f"word of {name}")
            rounds += 1
    assert beside.returncode == 0 and rounds
    assert all(Passwords(tmp_path).is_own(name, f"word of {name}") for name in names)


def test_guesses_are_answered_more_and_more_slowly_and_the_right_one_in_the_end():
    now = [0.0]
    patience = Patience(clock=lambda: now[0])
    waits = []
    for _ in range(60):
        waits.append(patience.begin("ada", "10.0.0.1"))
        now[0] += waits[-1]
    assert waits[:5] == [0.0] * 5
    assert waits[5:10] == [0.5, 1.0, 2.0, 4.0, 5.0] and set(waits[10:]) == {5.0}
    assert patience.begin("ada", "10.0.0.1") == 5.0, "the right one is read too"
    assert patience.begin("ada", "10.0.0.2") == 0.0, "who comes from elsewhere"
    assert patience.begin("grace", "10.0.0.1") == 0.0, "a neighbour behind the same address"
    patience.succeeded("ada", "10.0.0.1")
    assert patience.begin("ada", "10.0.0.1") == 0.0


def test_a_hundred_guesses_at_once_are_as_slow_as_one_after_the_other():
    patience = Patience(clock=lambda: 0.0)
    waits = [patience.begin("ada", "10.0.0.1") for _ in range(100)]
    assert waits[:8] == [0.0] * 5 + [0.5, 1.5, 3.5]
    read = [wait for wait in waits if wait is not None]
    assert len(read) < 25 and max(read) <= 60.0, "later ones are refused unread"


def test_one_address_that_tries_all_names_keeps_out_none_of_them():
    patience = Patience(clock=lambda: 0.0)
    for n in range(100):
        patience.begin(f"name{n}", "10.0.0.1")
    assert patience.begin("another", "10.0.0.1") == 0.0


def test_many_guesses_fill_no_memory_and_free_nobody_who_guesses():
    patience = Patience(clock=lambda: 0.0)
    for n in range(module.MOST_REMEMBERED + 100):
        patience.begin("ada", "10.0.0.1") if n % 100 == 0 else patience.begin(f"name{n}", "a")
    assert len(patience.tries) <= module.MOST_REMEMBERED
    assert patience.wait_for("ada", "10.0.0.1") > 0


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Ada Lovelace", "ada-lovelace"),
        ("  Zoë van Dijk ", "zoe-van-dijk"),
        ("o'brien", "o-brien"),
        ("../../etc/passwd", "etc-passwd"),
        ("42", ""),
        ("李", ""),
        ("x" * 80, "x" * 32),
    ],
)
def test_a_name_becomes_one_to_log_in_by(written, name):
    assert login_name(written) == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ada\nGrace\n\nada # again\n", "lines 1 and 4: both are 'ada' to log in by"),
        ("Ada\n!!!\n", "line 2: '!!!' has no letter of a to z"),
        ("# nobody\n\n", "has no names"),
        ("Teacher\n", "line 1: 'teacher' is the teacher"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_with_its_line(tmp_path, text, said):
    path = tmp_path / "names.txt"
    path.write_text(text)
    with pytest.raises(Refusal, match=re.escape(said)):
        read_names(path)


def test_a_list_that_is_missing_or_no_text_is_refused(tmp_path):
    with pytest.raises(Refusal, match="is not there: write a name on each of its lines"):
        read_names(tmp_path / "names.txt")
    (tmp_path / "names.xlsx").write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(Refusal, match="save it as plain text"):
        read_names(tmp_path / "names.xlsx")


def test_three_hundred_names_are_read_with_a_mark_of_windows(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("\ufeff" + "\r\n".join(f"Learner {n}" for n in range(300)))
    assert len(read_names(path)) == 300


def test_users_of_the_host_keep_the_names_they_have_there(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("ada_l\ngrace.h # she\n")
    assert read_names(path, host_users=True) == ["ada_l", "grace.h"]
    assert read_names(path) == ["ada-l", "grace-h"]
