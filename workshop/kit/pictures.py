"""The pictures of a chapter that was stored with its outputs, and the lines that cost most in
one."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from debubble.commands.board.questions import Cell, sections
from debubble.views.embedding import BYTES, MIME
from debubble.views.planes import from_planes
from debubble.views.timeline.packing import EVENT_COLUMNS, KINDS, unpack

from .cells import SLIDE, first_sentence, is_folded, last_sentence, paragraphs

MOST_LINES = 5


@dataclass(frozen=True)
class Picture:
    cell: int
    """The number of the cell, from 1."""
    section: str
    """The heading above it in the chapter, or "Measured on ..." for a recording of a GPU."""
    sentence: str
    view: Mapping[str, str]
    """The data of the live view: its kind and its packed timelines or drawings."""
    png: str
    """The still picture, in base64."""
    words: str
    """The picture in words, for readers who can't see it."""
    is_folded: bool
    is_left_out: bool
    """True if the chapter's author left it out of the slides."""
    label: str = ""
    """The accelerator of its recording, and if its times are modelled or measured; "" for a drawing
    of numbers."""
    is_measured: bool = False
    """True for a recording of a GPU."""
    at: int | None = None
    """The place of the slider's value that is shown first, of an explorer; None for its own."""


@dataclass(frozen=True)
class Cost:
    """A line that held the host: how often, and for how many milliseconds."""

    text: str
    place: str
    times: int
    milliseconds: float


def pictures_of(cells: Sequence[Cell]) -> list[Picture]:
    found = []
    headings = sections(cells)
    for index, cell in enumerate(cells):
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if MIME in data and "image/png" in data:
                label, is_measured = _recorded(data[MIME])
                found.append(
                    Picture(
                        index + 1,
                        _heading_of(label) if is_measured else headings[index],
                        sentence(cells, index),
                        data[MIME],
                        "".join(data["image/png"]).replace("\n", ""),
                        words_of(output),
                        is_folded(cell),
                        cell["metadata"].get(SLIDE) is False,
                        label,
                        is_measured,
                    )
                )
    return found


def _recorded(view: Mapping[str, str]) -> tuple[str, bool]:
    """Returns the label of a view's first recording, and True if it is of a GPU; ("", False) for a
    drawing of numbers."""
    for state in states_in(view)[:1]:
        facts = state["facts"]["after"]
        return facts["label"], not facts["modelled"]
    return "", False


def _heading_of(label: str) -> str:
    """Returns "Measured on NVIDIA H200" for "measured on NVIDIA H200, idle time x 0.9, ..."."""
    name = label.partition(",")[0]
    return name[:1].upper() + name[1:]


def words_of(output: Mapping) -> str:
    about = output.get("metadata", {}).get("image/png", {})
    return str(about.get("alt") or "".join(output["data"].get("text/plain", "")))


def sentence(cells: Sequence[Cell], index: int) -> str:
    """Returns the sentence below a picture: the one in the cell's metadata, or else the first
    sentence of the text that follows it, or else the last of the text above it."""
    said = cells[index]["metadata"].get(SLIDE)
    if isinstance(said, str):
        return said
    after = cells[index + 1 : index + 2]
    is_about = after and not "".join(after[0]["source"]).startswith("#")
    if is_about and (parts := paragraphs(after[0])):
        return first_sentence(parts[0])
    for cell in reversed(cells[:index]):
        if cell["cell_type"] == "markdown" and (parts := paragraphs(cell)):
            return last_sentence(parts[-1])
    return ""


def states_in(view: Mapping[str, str]) -> list[dict]:
    """Returns the state of each timeline in a stored view, as `debubble.views.embedding.embed`
    packed it."""
    whole = zlib.decompress(base64.b64decode(view["data"]))
    begin = 4 + int.from_bytes(whole[:4], "little")
    header = json.loads(whole[4:begin])
    states = []
    for place in header["states"]:
        state = {"facts": place["facts"]}
        for name in BYTES:
            offset, length = place[name]
            which = place["facts"]["before" if name.startswith("ghost") else "after"]
            what = name.removeprefix("ghost_")
            data = whole[begin + offset : begin + offset + length]
            layout = header["shared"]["layout"][what]
            state[name] = from_planes(data, which[what], layout) if data else b""
        states.append(state)
    return states


def costly_lines(picture: Picture) -> list[Cost]:
    """Returns the lines of a recording that held the host longest, by waits if it has any and by
    launches otherwise; [] for a picture that is no single recording."""
    if picture.view["view"] != "timeline":
        return []
    state, *_ = states_in(picture.view)
    facts = state["facts"]["after"]
    events = unpack(state["events"], facts["events"], EVENT_COLUMNS)
    for kind in ("sync", "launch"):
        is_kind = (events["kind"] == KINDS.index(kind)) & (events["source"] >= 0)
        if is_kind.any():
            return _longest(events, is_kind, facts["sources"])
    return []


def _longest(
    events: Mapping[str, np.ndarray], chosen: np.ndarray, sources: Sequence[Sequence[str]]
) -> list[Cost]:
    times: Counter[tuple[str, ...]] = Counter()
    lasted: Counter[tuple[str, ...]] = Counter()
    for source, duration in zip(
        events["source"][chosen].tolist(), events["duration"][chosen].tolist(), strict=True
    ):
        line = tuple(sources[source])
        times[line] += 1
        lasted[line] += duration
    return [
        Cost(text, place, times[place, text], total / 1000)
        for (place, text), total in lasted.most_common(MOST_LINES)
    ]
