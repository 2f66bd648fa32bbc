"""The view of two versions of code side by side."""

from html.parser import HTMLParser

from debubble.views.side_by_side import SideBySide

BEFORE = "def wait(x):\n    # one\n    # two\n    # three\n    return x.item()\n"
AFTER = "def wait(x):\n    # one\n    # two\n    # three\n    return x < 1 & 2\n"


class Cells(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.rows, self.inside = [], False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_a_change_stands_beside_what_it_was_with_its_marks():
    rows = Cells(SideBySide("wait", BEFORE, AFTER)._repr_html_()).rows
    assert rows[0] == ["before", "after"]
    assert rows[-1] == ["−     return x.item()", "+     return x < 1 & 2"]


def test_lines_far_from_a_change_are_left_out():
    shown = SideBySide("wait", BEFORE, AFTER)
    assert "def wait" not in shown._repr_html_() and "# three" in shown._repr_html_()


def test_a_line_that_only_one_version_has_leaves_the_other_side_empty():
    rows = Cells(SideBySide("", "a\n", "a\nb\n")._repr_html_()).rows
    assert rows[-1] == ["", "+ b"]


def test_two_changes_far_apart_have_a_gap_between_them():
    many = [f"line {n}" for n in range(40)]
    other = ["first", *many[1:-1], "last"]
    shown = SideBySide("", "\n".join(many), "\n".join(other))
    assert len(shown.parts) == 2
    assert ["…"] in Cells(shown._repr_html_()).rows


def test_its_words_are_a_diff():
    lines = repr(SideBySide("wait", BEFORE, AFTER)).splitlines()
    assert lines[0] == "wait"
    assert lines[-2:] == ["-     return x.item()", "+     return x < 1 & 2"]


def test_a_keyboard_can_scroll_what_is_too_wide():
    html = SideBySide("wait", BEFORE, AFTER)._repr_html_()
    assert html.startswith(
        '<div style="overflow-x: auto" tabindex="0" role="group" aria-label="wait">'
    )
