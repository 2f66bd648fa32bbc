"""Progress bars appear only if work takes long and there is a viewer."""

import pytest

from debubble.views import progress as module
from debubble.views.progress import progress, progress_html


@pytest.fixture
def bars(monkeypatch):
    """Returns a list of what progress bars show: (label, total), numbers, "closed". Time advances
    half a second at each look at the clock."""
    shown = []

    class Notes:
        def __init__(self, label, total):
            shown.append((label, total))

        def show(self, done):
            shown.append(done)

        def close(self):
            shown.append("closed")

    ticks = iter(range(10_000))
    monkeypatch.setattr(module, "make_bar", Notes)
    monkeypatch.setattr(module, "can_show", lambda: True)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(ticks) / 2)
    return shown


def test_items_come_through_unchanged():
    assert list(progress("abc", "reading")) == ["a", "b", "c"]
    assert list(progress(iter([1, 2]), "reading")) == [1, 2]


def test_long_work_is_shown_from_its_second_second_on(bars):
    assert list(progress([0, 1, 2, 3], "measuring")) == [0, 1, 2, 3]
    assert bars == [("measuring", 4), 1, 2, 3, "closed"]


def test_short_work_shows_nothing(bars):
    list(progress([0], "measuring"))
    assert bars == []


def test_the_bar_goes_when_the_work_fails(bars):
    with pytest.raises(RuntimeError):
        for item in progress(range(5), "measuring"):
            if item == 3:
                raise RuntimeError
    assert bars[-1] == "closed"


def test_nothing_is_drawn_under_pytest_or_into_a_file(monkeypatch):
    assert not module.can_show()
    monkeypatch.delenv("PYTEST_VERSION", raising=False)
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: False, raising=False)
    assert not module.can_show()
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True, raising=False)
    assert module.can_show()


def test_a_terminal_bar_can_be_shown_and_closed():
    bar = module.make_bar("measuring", 3)
    bar.show(2)
    bar.close()
    assert bar.bar.finished is False and bar.bar.tasks[0].completed == 2


def test_a_notebook_bar_is_one_output_that_ends_empty(monkeypatch):
    import IPython.display

    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data)

    def display(data, raw, display_id):
        shown.append(data)
        return Handle()

    monkeypatch.setattr(IPython.display, "display", display)
    bar = module.NotebookBar("measuring <b>", 3)
    bar.show(1)
    bar.show(2)
    bar.close()
    assert len(shown) == 3
    assert "&lt;b&gt;" in shown[0]["text/html"] and "2 of 3" in shown[1]["text/html"]
    assert shown[2] == {}


def test_without_a_total_the_bar_only_counts():
    assert "max=" not in progress_html("reading", 7, None)
    assert "7" in progress_html("reading", 7, None)
