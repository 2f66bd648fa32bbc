"""The commands with which a learner works through the katas."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from debubble.cli import app

pytestmark = pytest.mark.sim  # The commands use no device.
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def debubble(workbook, monkeypatch):
    entry = workbook.catalogue.file.read_text()
    more = 'minutes = 5\ndifficulty = "easy"\nmore_hints = ["It adds.", "It is `sum`."]\nstub_fails'
    entry = entry.replace("stub_fails", more)
    for name, title, chapter in (("add_more", "Add more", "00"), ("take_away", "Take away", "01")):
        second = entry.replace("add_up", name, 1).replace('"Add up"', f'"{title}"')
        entry_of = second.replace('chapter = "00"', f'chapter = "{chapter}"')
        if chapter == "01":
            entry_of = entry_of.replace('system = "tiny"', 'system = "small"')
        workbook.write("katas/katas.toml", workbook.catalogue.file.read_text() + entry_of)
    text = workbook.catalogue.file.read_text()
    workbook.write("katas/katas.toml", text.replace("stub_fails", more, 1))
    workbook.files.write_all()
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")

    def debubble(*arguments: str, input: str | None = None):
        return CliRunner().invoke(app, [*arguments], input=input)

    return debubble


def passed(workbook, name):
    file = workbook.root / "my" / "progress.jsonl"
    file.parent.mkdir(exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps({"kind": "attempt", "kata": name, "verdict": "passed"}) + "\n")


def test_alone_it_says_where_you_are_in_ten_lines(debubble):
    output = debubble().output
    assert output.startswith("0 of 3 katas solved.\nNow: Add up, chapter 00 (easy, 5 minutes)")
    assert len(output.splitlines()) <= 10 and "hint 1 of 3" in output


def test_list_has_all_katas_and_marks_them(debubble, workbook):
    passed(workbook, "add_up")
    output = debubble("list").output
    assert "00 tiny: 1 of 2 solved\n ✔ add_up" in output and " ▸ add_more" in output
    assert "easy     5 min" in output and max(map(len, output.splitlines())) <= 80


def test_list_has_those_of_a_chapter(debubble):
    output = debubble("list", "1").output
    assert "take_away" in output and "add_up" not in output


def test_next_makes_a_copy_and_shows_the_task(debubble, workbook):
    output = debubble("next").output
    assert "Add them up without counting." in output
    assert "edit     my/katas/tiny/add_up.py" in output
    assert (workbook.root / "my" / "katas" / "tiny" / "add_up.py").is_file()


def test_next_goes_on_behind_what_is_solved(debubble, workbook):
    passed(workbook, "add_up")
    assert "Add more" in debubble("next").output
    assert "Take away" in debubble("next", "small").output
    assert "Now: Take away" in debubble().output  # it is the current kata from now on


@pytest.mark.parametrize(
    ("word", "kata"),
    [
        ("add_up", "add_up"),
        ("take", "take_away"),
        ("01", "take_away"),
        ("small", "take_away"),
        ("katas/tiny/test_add_more.py", "add_more"),
        ("my/katas/tiny/add_more.py", "add_more"),
        ("chapters/01_small.ipynb", "take_away"),
    ],
)
def test_a_kata_is_known_by_its_name_its_file_or_its_chapter(debubble, word, kata):
    assert f"/{kata}.py" in debubble("hint", word).output


def test_an_unknown_name_gets_the_three_nearest(debubble):
    result = debubble("hint", "add_pu")
    assert result.exit_code == 2
    assert result.output.startswith("there is no kata 'add_pu': did you mean 'add_up', ")
    assert result.output.count("'") == 8


def test_a_beginning_that_two_names_have_is_not_guessed(debubble):
    assert debubble("hint", "add").output == (
        "'add' may be 'add_up' or 'add_more': write more of it\n"
    )


def test_hints_come_in_steps_and_are_counted(debubble):
    assert "Hint 1 of 3\nThere is a function" in debubble("hint").output
    second = debubble("hint").output
    assert "Hint 2 of 3\nIt adds." in second and "There is a function" not in second
    assert "Hint 3 of 3\nIt is `sum`." in debubble("hint").output
    assert "There is a function" in (last := debubble("hint").output) and "`sum`" in last
    assert json.loads(debubble("progress", "--json").output)["katas"][0]["hints"] == 3
    assert "It adds." in debubble("hint", "--step", "2").output
    assert "has no step 4" in debubble("hint", "--step", "4").output.replace("there is", "has")


def test_the_solution_is_for_those_who_have_solved_it(debubble, workbook):
    for command in ("solution", "diff"):
        result = debubble(command, "add_up")
        assert result.exit_code == 2 and "add_up is not solved yet" in result.output
    assert "return sum(numbers)" in debubble("solution", "add_up", "--spoil").output
    assert json.loads(debubble("progress", "--json").output)["katas"][0]["spoiled"]
    passed(workbook, "add_up")
    assert "+    return sum(numbers)" in debubble("diff").output


def test_reset_takes_the_copy_and_leaves_the_stub(debubble, workbook):
    debubble("next")
    copy = workbook.root / "my" / "katas" / "tiny" / "add_up.py"
    copy.write_text("x = 1\n")
    output = debubble("reset", "--yes").output
    assert "Your version is in my/katas/tiny/add_up.py.bak." in output
    assert copy.read_text() == workbook.stub.read_text()


COPY = "my/katas/tiny/add_up.py"
BEFORE = "solutions/tiny/before.py"


@pytest.fixture
def ours_changed(debubble, workbook):
    """Sets up a learner who has begun a kata, after which our task and the last line of our stub
    have changed."""
    debubble("next")
    entry = workbook.catalogue.file.read_text()
    workbook.catalogue.file.write_text(entry.replace("without counting", "and count nothing"))
    workbook.edit(BEFORE, "return total", "return int(total)")
    workbook.files.write_all()


def test_update_brings_our_changes_and_keeps_theirs(debubble, workbook, ours_changed):
    workbook.edit(COPY, "        counter.append(number)\n", "")
    result = debubble("update")
    assert result.exit_code == 0 and "has our changes; your earlier version is in" in result.output
    text = (workbook.root / COPY).read_text()
    assert "and count nothing" in text and "int(total)" in text and "append(" not in text
    assert "without counting" in (workbook.root / f"{COPY}.bak").read_text()
    assert debubble("update").output == "Up to date: 1 of your katas.\n"


@pytest.mark.parametrize(
    ("answer", "there", "gone"),
    [
        ("y", ["return sum(n"], ["int(total)"]),
        ("o", ["int(total)"], ["return sum(n"]),
        ("b", ["int(total)", "return sum(n"], []),
    ],
)
def test_update_asks_where_both_changed(debubble, workbook, ours_changed, answer, there, gone):
    workbook.edit(COPY, "return total", "return sum(numbers)")
    output = debubble("update", input=f"{answer}\n").output
    assert "you and we changed the same lines" in output
    text = (workbook.root / COPY).read_text()
    assert all(words in text for words in there) and not any(words in text for words in gone)


def test_update_without_an_answer_changes_nothing(debubble, workbook, ours_changed):
    workbook.edit(COPY, "return total", "return sum(numbers)")
    before = (workbook.root / COPY).read_text()
    result = debubble("update")
    assert (
        result.exit_code == 1 and f"{COPY} is unchanged: `debubble update add_up`" in result.output
    )
    assert (workbook.root / COPY).read_text() == before
    assert not (workbook.root / f"{COPY}.bak").exists()


def test_update_imports_what_an_older_exercise_had_in_it(debubble, workbook):
    helpers = "def twice(n):\n    return 2 * n\n\n\ndef doubled(n):\n    return twice(n)\n"
    workbook.write("solutions/tiny/shared.py", helpers)
    for path in ("before", "add_up"):
        code = (workbook.root / f"solutions/tiny/{path}.py").read_text()
        code = code.replace("return total", "return doubled(total)")
        code = code.replace("return sum(numbers)", "return doubled(sum(numbers))")
        workbook.write(f"solutions/tiny/{path}.py", f"from .shared import doubled\n\n\n{code}")
    workbook.files.write_all()
    debubble("next")
    older = workbook.stub.read_text().replace("from katas.tiny.given import doubled\n", "")
    older += f"\n\n# region Given: what the code above uses.\n\n\n{helpers}\n\n# endregion\n"
    (workbook.root / "my/katas/.stubs/tiny/add_up.py").write_text(older)
    (workbook.root / COPY).write_text(older.replace("doubled(total)", "twice(sum(numbers))"))
    assert debubble("update").exit_code == 0
    assert "\n# region" in (workbook.root / f"{COPY}.bak").read_text()
    text = (workbook.root / COPY).read_text()
    assert "from katas.tiny.given import doubled, twice\n" in text and "def twice" not in text
    assert "return twice(sum(numbers))" in text


@pytest.mark.parametrize("has_git", [True, False], ids=["git", "no git"])
def test_update_finds_what_an_older_workspace_did_not_keep(debubble, workbook, has_git, request):
    stub = workbook.stub.read_text()
    if has_git:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        for command in (["init", "-q"], ["add", "katas"], ["commit", "-qm", "as it was"]):
            subprocess.run([*git, *command], cwd=workbook.root, check=True)
    request.getfixturevalue("ours_changed")
    kept = workbook.root / "my" / "katas" / ".stubs"
    (kept / "tiny" / "add_up.py").unlink()
    (workbook.root / COPY).write_text(stub.replace("    total = 0\n", "    total = 0  # mine\n"))
    result = debubble("update", input="o\n" * 9)
    text = (workbook.root / COPY).read_text()
    assert result.exit_code == 0 and "and count nothing" in text and "int(total)" in text
    assert ("# mine" in text) == has_git == ("changed the same lines" not in result.output)


@pytest.fixture
def one_is_gone(debubble, workbook):
    """Takes a kata that the learner has solved out of the workbook."""
    debubble("next", "add_more")
    passed(workbook, "add_more")
    text = workbook.catalogue.file.read_text()
    first, gone = text.index("[[kata]]"), text.index('name = "add_more"')
    start, end = text.rindex("[[kata]]", first, gone), text.index("[[kata]]", gone)
    retired = '\n[[retired]]\nsystem = "tiny"\nname = "add_more"\nbecame = "take_away"\n'
    workbook.write("katas/katas.toml", text[:start] + text[end:] + retired)
    return workbook.root / "my/katas/tiny/add_more.py"


def test_what_becomes_of_a_kata_is_told_and_the_copy_is_kept(debubble, workbook, one_is_gone):
    theirs = one_is_gone.read_text()
    gone = "add_more is no longer in the workbook: its exercise is `take_away` now"
    updated = debubble("update")
    assert f"my/katas/tiny/add_more.py stays: {gone}." in updated.output and not updated.exit_code
    assert one_is_gone.read_text() == theirs
    assert f"0 of 2 solved.\n{gone}, and you had solved it." in debubble("progress").output
    assert json.loads(debubble("progress", "--json").output)["retired"] == [
        {"kata": "add_more", "became": "take_away", "solved": True}
    ]
    assert debubble("next", "add_more").output.strip() == gone
    assert gone in debubble().output
    debubble("next", "take_away")
    assert gone not in debubble().output


def test_an_optional_kata_does_not_come_up_by_itself(debubble, workbook):
    text = workbook.catalogue.file.read_text()
    text = text.replace('name = "add_more"\n', 'name = "add_more"\noptional = true\n')
    workbook.write("katas/katas.toml", text)
    passed(workbook, "add_up")
    assert "Now: Take away" in debubble().output
    assert "optional" in debubble("list").output
    assert "Add more (optional, easy, 5 minutes)" in debubble("next", "add_more").output
    assert "Now: Add more" in debubble().output
    passed(workbook, "take_away")
    passed(workbook, "add_more")
    assert "All of them" in debubble().output


def test_an_optional_kata_is_next_once_nothing_else_is_left(debubble, workbook):
    text = workbook.catalogue.file.read_text()
    text = text.replace('name = "add_more"\n', 'name = "add_more"\noptional = true\n')
    workbook.write("katas/katas.toml", text)
    passed(workbook, "add_up")
    passed(workbook, "take_away")
    assert "Now: Add more" in debubble().output


def test_progress_is_for_programs_too(debubble, workbook):
    passed(workbook, "add_up")
    found = json.loads(debubble("progress", "--json").output)
    assert (found["version"], found["solved"], found["of"]) == (1, 1, 3)
    assert found["current"] == "add_more" and found["katas"][0]["state"] == "solved"
    assert " 00 tiny         ✔·" in debubble("progress").output


def test_open_starts_the_editor_on_the_copy(debubble, workbook):
    result = debubble("open")
    assert (result.exit_code, result.output) == (0, "true my/katas/tiny/add_up.py\n")


def test_open_without_an_editor_names_the_file(debubble, monkeypatch):
    monkeypatch.delenv("EDITOR")
    assert debubble("open").output == (
        "EDITOR names no editor: open my/katas/tiny/add_up.py with yours\n"
    )


def test_a_progress_that_cannot_be_read_is_a_sentence(debubble, workbook):
    workbook.write("my/progress.jsonl/x", "a folder in its place")
    for command in ([], ["list"], ["hint"], ["progress"], ["next"]):
        result = debubble(*command)
        assert result.exit_code == 0, result.output
        assert "my/progress.jsonl can't be read (Is a directory)" in result.output


def test_the_commands_of_a_learner_need_no_torch(debubble, workbook):
    code = (
        "import sys; from typer.testing import CliRunner; from debubble.cli import app\n"
        "for command in ([], ['list'], ['next'], ['hint'], ['progress'], ['reset', '-y']):\n"
        "    assert CliRunner().invoke(app, command).exit_code == 0, command\n"
        "assert 'torch' not in sys.modules and 'pytest' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    subprocess.run([sys.executable, "-c", code], cwd=workbook.root, env=environment, check=True)


def test_a_hint_that_cannot_be_counted_says_how_to_get_the_next(debubble, workbook):
    workbook.write("my", "a file in its place")
    said = debubble("hint").output
    assert "Not recorded" in said and "`debubble hint add_up --step 2` shows the next" in said
    assert "Hint 2 of 3" in debubble("hint", "add_up", "--step", "2").output


class Watch:
    """A `debubble watch` that runs in a process of its own, whose output can be read."""

    def __init__(self, root, stdin=None):
        command = [sys.executable, "-u", "-m", "debubble", "watch", "--device", "sim"]
        self.process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Tests that run in the background ignore Ctrl-C, and so would the command.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        os.set_blocking(self.process.stdout.fileno(), False)

    def says(self, words: str) -> str:
        """Waits up to a minute until the command has printed `words`, and returns the new output.
        Raises AssertionError otherwise."""
        said = b""
        for _ in range(1200):
            said += self.process.stdout.read() or b""
            if words.encode() in said:
                return said.decode()
            time.sleep(0.05)
        raise AssertionError(f"watch never said {words!r}:\n{said.decode()}")


def test_watch_runs_on_save_whatever_was_saved(workbook):
    workbook.write("pytest.ini", "[pytest]\n")
    watch = Watch(workbook.root)
    try:
        assert "not solved: 1 of 2 tests pass" in watch.says("Watching my/katas/tiny/add_up.py")
        copy = workbook.root / "my" / "katas" / "tiny" / "add_up.py"
        text = copy.read_text()
        copy.write_text(text.replace("total = 0", "total = (0"))
        assert "Python cannot read my/katas/tiny/add_up.py" in watch.says("q to end")
        copy.write_text(text.replace("total = 0", "while True:\n        total = 0"))
        time.sleep(1)
        module = "torch.utils.bundled_inputs"
        asks = f"import sys; it = '{module}' in sys.modules; import {module}; raise ValueError(it)"
        for ending, is_known in (("", False), ("\n", True)):  # The next run has the module.
            copy.write_text(text.replace("total = 0", asks) + ending)
            assert ("ValueError: False" in watch.says("q to end")) is not is_known
        copy.write_text(text.replace("        counter.append(number)\n", ""))
        assert "Solved: Add up." in watch.says("Enter for the next kata")
        watch.process.send_signal(2)
        assert "add_up.py is as you saved it." in watch.says("saved it.")
        assert watch.process.wait(10) == 0
    finally:
        watch.process.kill()


@pytest.mark.deep
def test_watch_takes_single_keys_and_stops_at_a_time_limit(workbook):
    workbook.write("pytest.ini", "[pytest]\n")
    entry = (workbook.root / "katas" / "katas.toml").read_text()
    workbook.write("katas/katas.toml", entry.replace("stub_fails", "time_limit = 0.5\nstub_fails"))
    workbook.edit_stub("total = 0", "while True:\n        total = 0")
    ours, theirs = pty.openpty()
    watch = Watch(workbook.root, stdin=theirs)
    try:
        text = watch.says("press h for a hint, q to end")
        assert text.count("was still running") == 1 and "0 of 2 tests pass" in text
        time.sleep(0.2)
        os.write(ours, b"h")
        watch.says("There is a function for that.")
        os.write(ours, b"q")
        watch.says("saved it.")
        assert watch.process.wait(10) == 0
    finally:
        watch.process.kill()


def test_run_without_a_name_runs_the_kata_that_was_edited_last(debubble, workbook, monkeypatch):
    tested = []
    # The name would find an old copy of the module after a test that forgets its imports.
    run = import_module("debubble.commands.learning.run")
    monkeypatch.setattr(run, "status_of_tests", lambda kata, _: tested.append(kata.name) or 0)
    for kata in ("add_more", "take_away"):
        debubble("next", kata)
    later = time.time() + 60
    os.utime(workbook.root / "my/katas/tiny/add_more.py", (later, later))
    passed(workbook, "add_more")
    debubble("run")
    debubble("run", "add_up")
    assert tested == ["add_more", "add_up"]


def test_a_command_that_is_not_on_the_path_is_printed_with_its_folder(debubble, monkeypatch):
    script = Path(sys.executable).with_name("debubble")
    if not script.is_file():
        pytest.skip("debubble is not installed here")
    monkeypatch.setenv("PATH", "/nowhere")
    assert f"stuck?   {script} hint" in debubble("next", "add_up").output
    monkeypatch.setenv("PATH", str(script.parent))
    assert "stuck?   debubble hint" in debubble("next", "add_up").output
