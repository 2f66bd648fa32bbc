"""What an SVG of lines, boxes and words holds."""

from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
LETTER = 6.6
"""Of text in size 12, at most and on average."""


def drawn(picture):
    return ElementTree.fromstring(picture.svg)


def words(picture):
    return [text.text for text in drawn(picture).iter(f"{SVG}text")]


def expect_all_inside(picture):
    root = drawn(picture)
    _, _, width, height = map(float, root.get("viewBox").split())
    for box in root.iter(f"{SVG}rect"):
        assert 0 <= float(box.get("x", 0)) <= width - float(box.get("width")) + 0.1
        assert 0 <= float(box.get("y", 0)) <= height - float(box.get("height")) + 0.1
    for line in root.iter(f"{SVG}line"):
        for axis, end in (("x", width), ("y", height)):
            assert all(0 <= float(line.get(f"{axis}{point}")) <= end for point in "12")
    for text in root.iter(f"{SVG}text"):
        wide = LETTER * len(text.text) * float(text.get("font-size")) / 12
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor")]
        left = float(text.get("x")) - before * wide
        assert left >= 0 and left + wide <= width, text.text
        assert 0 < float(text.get("y")) < height
