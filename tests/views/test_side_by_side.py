"""The view of two versions of code side by side."""

from html.parser import HTMLParser

from debubble.views.side_by_side import SideBySide

BEFORE = "def wait(x):\n    # one\n    # two\n    # three\n    return x.item()\n"
AFTER = "def wait(x):\n    # one\n    # two\n    # three\n    return x < 1 & 2\n"


class Blocks(HTMLParser):
    """The blocks of code of a view: (name, lines) in the order in which a page shows them."""

    def __init__(self, html):
        super().__init__()
        self.blocks, self.depth = [], 0
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        label = dict(attributes).get("aria-label")
        if tag == "div" and label in ("before", "after"):
            self.blocks.append((label, []))
        elif tag == "div" and self.blocks and "pre-wrap" in dict(attributes)["style"]:
            self.blocks[-1][1].append("")
            self.depth = 1

    def handle_endtag(self, tag):
        self.depth = 0

    def handle_data(self, data):
        if self.depth:
            self.blocks[-1][1][-1] += data


def blocks(before, after):
    return Blocks(SideBySide("wait", before, after)._repr_html_()).blocks


def test_a_change_stands_beside_what_it_was_with_its_marks():
    (first, old), (second, new) = blocks(BEFORE, AFTER)
    assert (first, second) == ("before", "after")
    assert (old[-1], new[-1]) == ("−     return x.item()", "+     return x < 1 & 2")


def test_lines_far_from_a_change_are_left_out():
    shown = SideBySide("wait", BEFORE, AFTER)
    assert "def wait" not in shown._repr_html_() and "# three" in shown._repr_html_()


def test_a_line_that_only_one_version_has_is_in_one_block():
    (_, old), (_, new) = blocks("a\n", "a\nb\n")
    assert (old, new) == (["  a"], ["  a", "+ b"])


def test_two_changes_far_apart_have_blocks_of_their_own():
    many = [f"line {n}" for n in range(40)]
    other = ["first", *many[1:-1], "last"]
    shown = SideBySide("", "\n".join(many), "\n".join(other))
    assert len(shown.parts) == 2
    assert [name for name, _ in Blocks(shown._repr_html_()).blocks] == ["before", "after"] * 2


def test_its_words_are_a_diff():
    lines = repr(SideBySide("wait", BEFORE, AFTER)).splitlines()
    assert lines[0] == "wait"
    assert lines[-2:] == ["-     return x.item()", "+     return x < 1 & 2"]


def test_it_takes_the_colours_of_its_page_and_cuts_off_no_line():
    html = SideBySide("wait", BEFORE, AFTER)._repr_html_()
    assert "#" not in html.replace("# ", "") and "color: inherit" in html
    assert "overflow-x" not in html and "white-space: pre;" not in html
