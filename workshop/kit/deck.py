"""Chooses what of a chapter becomes slides: at most 15, in the chapter's order.

The title; each question, with its answer at the next key; each picture, with a sentence; the lines
that held the host, after the first picture that has such lines; the points to take home.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from debubble.commands.board.questions import Cell

from .cells import SLIDE, paragraphs, source_of
from .pictures import Cost, Picture, costly_lines, pictures_of
from .questions import Asked, asked_in

MOST_SLIDES = 15
FEWEST_PICTURES = 5
HELD = 0.1
"""The milliseconds from which on a line counts as one that held the host."""


@dataclass(frozen=True)
class Title:
    title: str
    story: Sequence[str]
    afterwards: str


@dataclass(frozen=True)
class Lines:
    section: str
    label: str
    """The accelerator of the recording, and if its times are modelled or measured."""
    costs: Sequence[Cost]


@dataclass(frozen=True)
class TakeHome:
    points: Sequence[str]


Slide = Title | Asked | Picture | Lines | TakeHome


def deck(cells: Sequence[Cell]) -> list[Slide]:
    """Returns the slides of a chapter that was stored with its outputs."""
    pictures = chosen_pictures(pictures_of(cells))
    lines = [slide for picture in pictures if (slide := _lines(picture))][:1]
    home = _take_home(cells)
    asked = [one for one in asked_in(cells) if not one.is_left_out]
    room = MOST_SLIDES - 1 - len(lines) - len(home)
    asked = asked[: room - FEWEST_PICTURES]
    pictures = _fitting(pictures, room - len(asked))
    return [title_of(cells), *_in_order(asked, pictures, lines), *home]


def chosen_pictures(pictures: Sequence[Picture]) -> list[Picture]:
    """Returns the pictures of the main path and the recordings of GPUs, and more if these are fewer
    than five: first the other end of a slider, then pictures of folded parts."""
    kept = [one for one in pictures if not one.is_left_out]
    main = [one for one in kept if not one.is_folded or one.is_measured]
    if len(main) < FEWEST_PICTURES:
        main = [end for one in main for end in _ends(one)]
    folded = [one for one in kept if one.is_folded and not one.is_measured]
    more = folded[: max(0, FEWEST_PICTURES - len(main))]
    return sorted([*main, *more], key=lambda one: one.cell)


def _ends(picture: Picture) -> list[Picture]:
    """Returns an explorer's picture twice, at both ends of its slider; any other picture once."""
    if picture.view["view"] != "explorer":
        return [picture]
    return [replace(picture, at=end) for end in (0, -1)]


def _fitting(pictures: Sequence[Picture], most: int) -> list[Picture]:
    """Leaves out recordings of folded parts, and then the last pictures, until the rest fit."""
    kept = list(pictures)
    while len(kept) > most:
        folded = [one for one in kept if one.is_folded]
        kept.remove(folded[-1] if folded else kept[-1])
    return kept


def _in_order(
    asked: Sequence[Asked], pictures: Sequence[Picture], lines: Sequence[Lines]
) -> list[Slide]:
    """Returns the slides in the chapter's order, with the lines after the first picture that has
    them."""
    placed: list[tuple[int, int, Slide]] = [(one.question.number, 0, one) for one in asked]
    placed += [(one.cell, 1, one) for one in pictures]
    first = next((one.cell for one in pictures if _lines(one)), 0)
    placed += [(first, 2, one) for one in lines]
    return [slide for *_, slide in sorted(placed, key=lambda one: one[:2])]


def _lines(picture: Picture) -> Lines | None:
    costs = [] if picture.is_folded else costly_lines(picture)
    held = costs and costs[0].milliseconds >= HELD
    return Lines(picture.section, picture.label, costs) if held else None


def title_of(cells: Sequence[Cell]) -> Title:
    """Returns the first cell as a slide: the title, the story, what one can do afterwards."""
    source = source_of(cells[0])
    able = re.search(r"^\| Afterwards you can \| (.+?) \|$", source, re.MULTILINE)
    said = cells[0]["metadata"].get(SLIDE)
    story = said.split("\n\n") if isinstance(said, str) else paragraphs(cells[0])
    return Title(source.splitlines()[0].lstrip("# "), story, able[1] if able else "")


def _take_home(cells: Sequence[Cell]) -> list[TakeHome]:
    """Returns a slide of the list below the last heading, if the chapter ends with a list."""
    last = source_of(cells[-1])
    points = re.findall(r"^- (.+)$", last, re.MULTILINE)
    return [TakeHome(points)] if points else []
