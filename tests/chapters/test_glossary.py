"""Words of the glossary are not used before a chapter has explained them."""

import pytest

from .notebooks import READERS, Cell, cells_of
from .terms import Term, terms, too_early

CHAPTERS = [(path.name[:2], cells_of(path)) for path in READERS]
ASKED_FOR = (
    "host", "kernel", "stream", "event", "capture", "decode", "rank", "logits",
    "speculative decoding",
)  # fmt: skip


def test_each_word_is_there_once_and_those_that_were_asked_for():
    words = [term.word for term in terms()]
    assert len(set(words)) == len(words)
    assert set(ASKED_FOR) <= set(words)


def test_they_are_in_the_order_of_the_alphabet():
    words = [term.word.lower() for term in terms()]
    assert words == sorted(words, key=lambda word: word.replace("-", ""))


def test_no_word_is_used_before_it_is_explained():
    assert list(too_early(CHAPTERS, terms())) == []


TERM = Term("kernel", "A function on the GPU.", "00")


def markdown(source):
    return Cell("cell", "markdown", source, "", {})


@pytest.mark.parametrize(
    "texts, complaint",
    [
        (["A **kernel** runs. Kernels end."], None),
        (["Many **kernels** run."], None),
        (["Kernels run.", "A **kernel** is a function."], "before it is explained"),
        (["A kernel, also **kernel**."], "before it is explained"),
        (["Nothing here. `kernel`"], "no chapter uses it"),
        (["# A kernel\n\nThe **kernel**."], None),
        (["Kernelized."], "no chapter uses it"),
    ],
)
def test_what_the_check_finds(texts, complaint):
    found = list(too_early([("00", [markdown(text) for text in texts])], [TERM]))
    assert len(found) == (complaint is not None)
    assert not found or complaint in found[0]


def test_a_word_explained_in_another_chapter_is_found():
    chapters = [("00", []), ("01", [markdown("A **kernel**.")])]
    (found,) = too_early(chapters, [TERM])
    assert found == "kernel: explained in 01, and the glossary says 00"
