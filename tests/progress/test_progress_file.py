"""`progress.jsonl` loses no event, whichever code writes it and however a writer ends."""

import errno
import multiprocessing
import os
import signal
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from debubble.exercises.kata_files.progress import Progress
from debubble.progress import ProgressError, ProgressFile
from debubble.progress import file as progress_file
from debubble.views.prediction import kept

EACH = 60
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Returns the path of an empty progress file beside a folder of chapters. The test runs in that
    folder, as a reader's notebook does."""
    (tmp_path / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    ProgressFile(tmp_path / "progress.jsonl").add([])
    return tmp_path / "progress.jsonl"


@pytest.fixture(params=["with locks", "on a drive without locks", "on a system without locks"])
def locks(request, monkeypatch):
    if request.param == "on a system without locks":
        monkeypatch.setitem(sys.modules, "fcntl", None)
    elif request.param == "on a drive without locks":
        monkeypatch.setattr("fcntl.flock", partial(fail, errno.ENOLCK))
    return request.param == "with locks"


def fail(number, *_):
    raise OSError(number, os.strerror(number))


def in_processes(*work):
    processes = [FORK.Process(target=one) for one in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(work)


def commit_to_predictions():
    for number in range(EACH):
        kept.keep(f"q{number}", "7")


def take_hints(path):
    book = Progress(SimpleNamespace(root=path.parent, progress_file=path))
    for number in range(EACH):
        book.add("hint", step=number)


def try_a_kata(path):
    """Adds attempts at a kata, which make the file too large again and again. Then attempts are
    deleted first."""
    for _ in range(EACH):
        ProgressFile(path).add([{"kind": "attempt", "kata": "k", "failed": ["x" * 2_000]}])


def numbers(path, kind, field):
    return sorted(
        str(event[field]) for event in ProgressFile(path).events() if event["kind"] == kind
    )


def test_every_way_to_write_keeps_what_the_others_wrote(path, locks, monkeypatch):
    """No prediction and no hint is lost if chapters and katas write the file from four processes.
    (They used to write it in two ways, and lost half of each other's events.)"""
    monkeypatch.setattr(progress_file, "MOST_BYTES", 30_000)
    monkeypatch.setattr(progress_file, "ROOM", 25_000)
    in_processes(
        commit_to_predictions, partial(take_hints, path), partial(try_a_kata, path),
        partial(try_a_kata, path),
    )  # fmt: skip
    assert numbers(path, "prediction", "cell") == sorted(f"q{n}" for n in range(EACH))
    assert numbers(path, "hint", "step") == sorted(str(n) for n in range(EACH))
    attempts = len(numbers(path, "attempt", "kata"))
    assert attempts < 20 if locks else attempts == 2 * EACH
    assert {one.name for one in path.parent.iterdir()} == {"chapters", "progress.jsonl"}


def test_writers_that_make_the_file_together_lose_nothing(path, locks):
    for _ in range(10):
        path.unlink()
        add = lambda name: ProgressFile(path).add([{"kind": "begun", "kata": name}])
        in_processes(*(partial(add, f"k{number}") for number in range(3)))
        assert numbers(path, "begun", "kata") == ["k0", "k1", "k2"]


def write_and_tell(path, pipe):
    for number in range(100_000):
        ProgressFile(path).add([{"kind": "hint", "step": number, "failed": ["x" * 5_000]}])
        os.write(pipe, b".")


def test_a_writer_that_is_killed_leaves_all_that_it_has_written(path, locks):
    heard, tell = os.pipe()
    writer = FORK.Process(target=write_and_tell, args=(path, tell))
    writer.start()
    told = sum(len(os.read(heard, 1)) for _ in range(20))
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    os.close(tell)
    while more := os.read(heard, 100):
        told += len(more)
    ProgressFile(path).add([{"kind": "begun", "kata": "afterwards"}])
    events = ProgressFile(path).events()
    assert [event["step"] for event in events[:told]] == [*range(told)]
    assert events[-1]["kata"] == "afterwards"


def test_a_line_cut_anywhere_costs_itself_alone(path, locks):
    ProgressFile(path).add([{"kind": "hint", "step": 1}])
    whole = path.read_bytes()
    ProgressFile(path).add([{"kind": "prediction", "cell": "wie groß? ½ µs", "value": "ein Ö"}])
    torn = path.read_bytes()[len(whole) :]
    for cut in range(len(torn)):
        path.write_bytes(whole + torn[:cut])
        assert [event["kind"] for event in ProgressFile(path).events()][:1] == ["hint"]
        ProgressFile(path).add([{"kind": "begun", "kata": "k"}])
        kinds = [event["kind"] for event in ProgressFile(path).events()]
        assert [kind for kind in kinds if kind != "prediction"] == ["hint", "begun"]


def test_a_disk_that_is_full_halfway_changes_nothing(path, monkeypatch):
    ProgressFile(path).add([{"kind": "hint", "step": 1}])
    before, write, calls = path.read_bytes(), os.write, []

    def half(file, data):
        calls.append(file)
        return write(file, data[:20]) if len(calls) == 1 else fail(errno.ENOSPC)

    monkeypatch.setattr(progress_file.os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        ProgressFile(path).add([{"kind": "hint", "step": 2}])
    assert path.read_bytes() == before


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\r", "\n"])
def test_a_text_may_hold_any_separator_of_lines(path, separator, monkeypatch):
    """A kept text with any line separator is read back unchanged, also after the file was thinned:
    only a newline ends a line of the file."""
    said = f"one{separator}two"
    kept.keep("how many?", said)
    assert kept.recall("how many?") == said
    monkeypatch.setattr(progress_file, "MOST_BYTES", 500)
    monkeypatch.setattr(progress_file, "ROOM", 400)
    for _ in range(5):
        try_one = {"kind": "attempt", "kata": "k", "failed": ["x" * 60]}
        ProgressFile(path).add([try_one])
    assert kept.recall("how many?") == said


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n\n", b"\x00" * 300, b"\xff\xfe\n", b"[" * 100_000, b'{"kind": 7}\n',
        b'\xef\xbb\xbf{"debubble": "progress", "version": 1}\r\n', b"{}", b'{"version": 1}',
    ],
    ids=repr,
)  # fmt: skip
def test_whatever_is_in_the_file_it_can_be_added_to(path, content, locks):
    path.write_bytes(content)
    ProgressFile(path).add([{"kind": "hint", "step": 1}])
    ProgressFile(path).add([{"kind": "hint", "step": 2}])
    assert [event["step"] for event in ProgressFile(path).events()] == [1, 2]


def test_a_file_of_a_newer_version_is_neither_read_nor_written(path):
    path.write_text('{"debubble": "progress", "version": 2}\n{"kind": "prediction"}\n')
    before = path.read_bytes()
    for call in (ProgressFile(path).events, partial(ProgressFile(path).add, [{"kind": "begun"}])):
        with pytest.raises(ProgressError, match="is of version 2, and this debubble knows 1"):
            call()
    kept.keep("how many?", "7")
    assert kept.recall("how many?") is None and path.read_bytes() == before
