"""Shapes and colours of the chapters' pictures, as SVG."""

from __future__ import annotations

from html import escape

INK, FAINT, GROUND = "#1f2933", "#6b7785", "#ffffff"
SEQUENCE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5548a", "#4b3b8f")
"""After Okabe and Ito, as in the timelines; each sequence's number is written beside it."""
BAR = 22
"""Height of a box."""


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def colour_of(sequence: int) -> str:
    return SEQUENCE_COLOURS[sequence % len(SEQUENCE_COLOURS)]


def label(
    x: float,
    y: float,
    words: str,
    anchor: str = "middle",
    colour: str = INK,
    weight: int = 400,
    size: int = 12,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-weight="{weight}" font-size="{size}">{escape(words)}</text>'
    )


def box(left: float, right: float, top: float, colour: str, opacity: float = 1.0) -> str:
    """With a small gap to the next one."""
    width = max(0.0, right - left - 1.5)
    return (
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" '
        f'fill="{colour}" fill-opacity="{opacity}"/>'
    )


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dashes: str = "none"
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}" stroke-dasharray="{dashes}"/>'
    )
