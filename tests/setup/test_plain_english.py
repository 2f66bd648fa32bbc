"""Docstrings and comments begin with a verb or a thing, and use words that readers know."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

FOLDERS = ("debubble", "solutions", "tests", "scripts", "workshop")
FIRST = re.compile(
    r"\s*(Of|After|Before|Behind|For|From|By|In|On|At|With|Without|Under|To|As|Where|When|If|What"
    r"|Whoever|That|Those|Not|Nothing|Nobody|Whether|Which)\b"
)
WORDS = re.compile(
    r"\b(anew|whoever|nobody|the affair of|for long(?=[.,;:]|$)|under way|gives? back)\b", re.I
)
OTHERS_WRITE = {"tests/outside", "tests/wrong_attempts", "tests/correct_variants"}


def files():
    found = (path for folder in FOLDERS for path in Path(folder).rglob("*.py"))
    return [path for path in found if not any(str(path).startswith(f) for f in OTHERS_WRITE)]


def docstrings(text):
    """Yields (line number, text) of each string that is a statement by itself: docstrings, also of
    attributes."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = getattr(statement, "value", None)
            is_alone = isinstance(statement, ast.Expr) and isinstance(value, ast.Constant)
            if is_alone and isinstance(value.value, str):
                yield statement.lineno, value.value


def comments(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def found_in(texts, path, pattern):
    """Returns "file:line: match" for each match of `pattern` outside quotations in `texts`, which
    are (line number, text)."""
    unquoted = ((line, re.sub(r"`[^`]*`|\"[^\"]*\"", "", text)) for line, text in texts)
    return [f"{path}:{line}: {m[1]}" for line, text in unquoted for m in pattern.finditer(text)]


@pytest.fixture(scope="module")
def sources():
    return {path: path.read_text(encoding="utf-8") for path in files()}


def test_no_docstring_begins_with_a_fragment(sources):
    may_begin, begins = re.compile(rf'"""{FIRST.pattern}'), re.compile(rf"\A{FIRST.pattern}")
    assert not [
        place
        for path, text in sources.items()
        if may_begin.search(text)
        for place in found_in(docstrings(text), path, begins)
    ]


def test_no_docstring_or_comment_has_a_word_that_readers_would_not_use(sources):
    assert not [
        place
        for path, text in sources.items()
        if WORDS.search(text)
        for texts in (docstrings(text), comments(text))
        for place in found_in(texts, path, WORDS)
    ]
