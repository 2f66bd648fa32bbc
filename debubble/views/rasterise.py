"""A simple SVG as a PNG, which every page shows: JupyterLab shows no SVG of a notebook that it has
no reason to trust."""

from __future__ import annotations

from io import BytesIO
from typing import Literal
from xml.etree import ElementTree

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

NAMESPACE = "{http://www.w3.org/2000/svg}"
DOTS_PER_UNIT = 1.4
POINTS_PER_UNIT = 0.75
DOTS_PER_INCH = DOTS_PER_UNIT * 72 / POINTS_PER_UNIT
BOLD = 600
ALIGNED: dict[str, Literal["left", "center", "right"]] = {
    "start": "left",
    "middle": "center",
    "end": "right",
}


def png_of(svg: str) -> bytes:
    """Of an SVG with a viewBox that holds nothing but rect, line and text, each with its own
    attributes. Corners are not rounded. ValueError for anything else."""
    root = ElementTree.fromstring(svg)
    left, top, width, height = map(float, attribute(root, "viewBox").split())
    figure = Figure((width * DOTS_PER_UNIT / DOTS_PER_INCH, height * DOTS_PER_UNIT / DOTS_PER_INCH))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(left, left + width)
    axes.set_ylim(top + height, top)
    for order, element in enumerate(root):
        draw = DRAWN_BY.get(element.tag)
        if draw is None:
            known = ", ".join(tag.removeprefix(NAMESPACE) for tag in DRAWN_BY)
            raise ValueError(f"element {element.tag.removeprefix(NAMESPACE)!r}: use {known}")
        artist = draw(element)
        artist.set_zorder(order)
        axes.add_artist(artist)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
    return buffer.getvalue()


def attribute(element: ElementTree.Element, name: str) -> str:
    """ValueError for an element without it."""
    value = element.get(name)
    if value is None:
        tag = element.tag.removeprefix(NAMESPACE)
        raise ValueError(f"element {tag!r} has no {name}: it takes one")
    return value


def number(element: ElementTree.Element, name: str, default: float | None = None) -> float:
    """The attribute, or the default where there is one; ValueError without both."""
    if default is not None and name not in element.attrib:
        return default
    return float(attribute(element, name))


def draw_rect(element: ElementTree.Element) -> Rectangle:
    return Rectangle(
        (number(element, "x", 0), number(element, "y", 0)),
        number(element, "width"),
        number(element, "height"),
        facecolor=element.get("fill"),
        alpha=number(element, "fill-opacity", 1),
        linewidth=0,
    )


def draw_line(element: ElementTree.Element) -> Line2D:
    dashes = element.get("stroke-dasharray", "none")
    return Line2D(
        [number(element, "x1"), number(element, "x2")],
        [number(element, "y1"), number(element, "y2")],
        color=element.get("stroke"),
        linewidth=number(element, "stroke-width", 1) * POINTS_PER_UNIT,
        linestyle="-" if dashes == "none" else (0, tuple(map(float, dashes.split()))),
        solid_capstyle="butt",
    )


def draw_text(element: ElementTree.Element) -> Text:
    return Text(
        number(element, "x"),
        number(element, "y"),
        element.text,
        color=element.get("fill"),
        fontsize=number(element, "font-size") * POINTS_PER_UNIT,
        fontweight="bold" if number(element, "font-weight", 400) >= BOLD else "normal",
        horizontalalignment=ALIGNED[element.get("text-anchor", "start")],
        verticalalignment="baseline",
        parse_math=False,
    )


DRAWN_BY = {
    f"{NAMESPACE}rect": draw_rect,
    f"{NAMESPACE}line": draw_line,
    f"{NAMESPACE}text": draw_text,
}
