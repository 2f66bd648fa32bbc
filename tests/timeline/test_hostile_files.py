"""Untrusted files: each is shown or refused, however it is opened, at a cost proportional to its
size."""

import sys

import pytest

from .hostile import WAYS, kinds, most_bytes, most_seconds, open_apart, write

LARGE = 16_000_000
REFUSED = {
    "empty": "it is empty",
    "not text": "it is not text",
    "a gzip bomb": "it is not JSON",
    "cut off": "cut off or damaged at character",
    "nested deep": "more lists than",
    "short lists": "more lists than",
    "empty objects": "more objects than",
    "objects with lists": "more objects than",
    "an object of many keys": "more texts than",
    "words": "more texts than",
    "a Chrome trace": "is none of a profiler",
    "no numbers": "the time nan is not a number",
    "negative durations": "the time -1 is not a number",
    "launched by a text": "launched by event '0'",
    "columns missing": "'name' is missing",
    "wrong types": "damaged",
    "a name of megabytes": "a text of 4,000,000 characters",
    "lines inside lines": "more than 1,000,000 lines inside others",
}
MANY_EVENTS = {
    "many lines",
    "many events at once",
    "many kernels",
    "many waits",
    "events with long names",
}
"""The kinds of files whose cost depends on the number of events, not on bytes: up to 50 µs to load
and show an event."""
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says how much memory a process has held"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write(tmp_path_factory.mktemp("hostile"), LARGE, events=1_000)


def test_each_kind_is_shown_or_refused_in_a_sentence_and_in_the_memory_of_its_size(files):
    """Each kind of file is shown, or refused with one short sentence, within memory proportional to
    its size. (One process opens them all, the largest last, so its peak memory belongs to the
    current file.)"""
    ordered = sorted(files.items(), key=lambda item: item[1].stat().st_size)
    found = open_apart("every", *(path for _, path in ordered))
    for (kind, path), cost in zip(ordered, found, strict=True):
        said = cost["said"]
        assert said.startswith("refused: ") == (kind in REFUSED), (kind, said)
        assert REFUSED.get(kind, "") in said, (kind, said)
        assert all(line.isprintable() for line in said.split("\n")), (kind, said)
        if kind in REFUSED:
            assert said.endswith(".") and "\n" not in said and len(said) < 300 + len(str(path))
        assert cost["peak"] < most_bytes(path), f"{kind}: {cost['peak'] / 1e6:.0f} MB"


@pytest.mark.deep
@pytest.mark.parametrize("way", WAYS[:-1])
@pytest.mark.parametrize("kind", [*kinds(LARGE, 0)])
def test_what_it_takes_to_open_a_file_goes_by_its_size(tmp_path, kind, way):
    path = tmp_path / "hostile.json"
    made = kinds(LARGE, 200_000)[kind]()
    path.write_bytes(made if isinstance(made, bytes) else made.encode())
    (cost,) = open_apart(way, path)
    assert cost["peak"] < most_bytes(path)
    assert kind in MANY_EVENTS or cost["seconds"] < most_seconds(path)
