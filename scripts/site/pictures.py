"""Pictures of stored outputs, made smaller for pages."""

from __future__ import annotations

from base64 import b64decode, b64encode
from io import BytesIO

from nbformat import NotebookNode
from PIL import Image

COLOURS = 256
PNG = "image/png"


def shrink(cells: list[NotebookNode]) -> None:
    """Replaces each PNG of the cells' outputs by one with fewer colours."""
    for cell in cells:
        for output in cell.get("outputs", ()):
            if PNG in output.get("data", {}):
                output.data[PNG] = smaller(output.data[PNG])


def smaller(picture: str) -> str:
    """Returns a PNG, in base64, with at most COLOURS colours. Returns `picture` itself if that is
    no longer."""
    buffer = BytesIO()
    with Image.open(BytesIO(b64decode(picture))) as image:
        few = image.convert("RGBA").quantize(COLOURS, Image.Quantize.FASTOCTREE)
        few.save(buffer, "png", optimize=True)
    return min(picture, b64encode(buffer.getvalue()).decode(), key=len)
