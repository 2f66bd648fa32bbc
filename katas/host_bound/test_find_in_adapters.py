"""The tests of `find_in_adapters`: the choices, and the reasons why they are wrong, are in
`recorded/adapters.toml`."""

from pathlib import Path

from debubble.exercises import FindIt

FOUND = FindIt(Path(__file__).parent / "recorded/adapters.toml")


def test_the_line(kata):
    FOUND.check("line", kata.find_in_adapters())


def test_the_kind(kata):
    FOUND.check("kind", kata.find_in_adapters())


def test_the_gain(kata):
    FOUND.check("gain", kata.find_in_adapters())
