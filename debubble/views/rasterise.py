"""A simple SVG as a PNG, which every page shows: JupyterLab shows no SVG of a notebook that it has
no reason to trust."""

from __future__ import annotations

from io import BytesIO
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
ALIGNED = {"start": "left", "middle": "center", "end": "right"}


def png_of(svg: str) -> bytes:
    """Of an SVG with a viewBox that holds nothing but rect, line and text, each with its own
    attributes. Corners are not rounded. ValueError for anything else."""
    root = ElementTree.fromstring(svg)
    left, top, width, height = map(float, root.get("viewBox").split())
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


def draw_rect(element: ElementTree.Element) -> Rectangle:
    return Rectangle(
        (float(element.get("x", 0)), float(element.get("y", 0))),
        float(element.get("width")),
        float(element.get("height")),
        facecolor=element.get("fill"),
        alpha=float(element.get("fill-opacity", 1)),
        linewidth=0,
    )


def draw_line(element: ElementTree.Element) -> Line2D:
    dashes = element.get("stroke-dasharray", "none")
    style = "-" if dashes == "none" else (0, tuple(map(float, dashes.split())))
    return Line2D(
        [float(element.get("x1")), float(element.get("x2"))],
        [float(element.get("y1")), float(element.get("y2"))],
        color=element.get("stroke"),
        linewidth=float(element.get("stroke-width", 1)) * POINTS_PER_UNIT,
        linestyle=style,
        solid_capstyle="butt",
    )


def draw_text(element: ElementTree.Element) -> Text:
    return Text(
        float(element.get("x")),
        float(element.get("y")),
        element.text,
        color=element.get("fill"),
        fontsize=float(element.get("font-size")) * POINTS_PER_UNIT,
        fontweight="bold" if int(element.get("font-weight", 400)) >= BOLD else "normal",
        horizontalalignment=ALIGNED[element.get("text-anchor", "start")],
        verticalalignment="baseline",
        parse_math=False,
    )


DRAWN_BY = {
    f"{NAMESPACE}rect": draw_rect,
    f"{NAMESPACE}line": draw_line,
    f"{NAMESPACE}text": draw_text,
}
