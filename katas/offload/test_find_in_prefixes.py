"""The tests of `find_in_prefixes`: the choices, and the reasons why they are wrong, are in
`recorded/prefixes.toml`."""

from pathlib import Path

from debubble.exercises import FindIt

FOUND = FindIt(Path(__file__).parent / "recorded/prefixes.toml")


def test_the_line(kata):
    FOUND.check("line", kata.find_in_prefixes())


def test_the_kind(kata):
    FOUND.check("kind", kata.find_in_prefixes())


def test_the_gain(kata):
    FOUND.check("gain", kata.find_in_prefixes())
