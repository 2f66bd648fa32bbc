"""The dashboard's table: the texts of its cells, and cells that are left out."""

import pytest

from debubble.views.dashboard.run import Run
from debubble.views.dashboard.table import FigureTable, caption, format_figure, groups
from tests.timeline.recordings import transformer_step


def made(uploads: int, figures: dict[str, float] | None = None, source: str = "made up") -> Run:
    return Run(transformer_step(uploads), figures or {}, source)


def rows(after: Run, before: Run | None) -> dict[str, tuple[str, ...]]:
    return {label: cells for g in groups(after, before) for label, *cells in g["rows"]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (4, "4"),
        (12345, "12,345"),
        (0.00912, "0.00912"),
        (0.912, "0.912"),
        (9.12, "9.12"),
        (91.24, "91.2"),
        (12345.6, "12,346"),
        (-91.24, "-91.2"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_a_figure_has_three_digits_that_count(value, text):
    assert format_figure(value) == text


def test_figures_keep_their_order_and_say_by_how_much_they_changed():
    before, after = (
        made(0, {"tokens/s": 400.0, "step ms": 2.0}),
        made(0, {"tokens/s": 1000.0, "step ms": 0.8}),
    )
    assert groups(after, before)[0]["rows"] == [
        ("tokens/s", "400", "1,000", "+150%"),
        ("step ms", "2.00", "0.800", "−60%"),
    ]


@pytest.mark.parametrize("old", [None, 0.0, float("nan")])
def test_a_figure_without_a_past_to_compare_with_has_no_change(old):
    before = made(0, {} if old is None else {"hits": old})
    assert rows(made(0, {"hits": 2.0}), before)["hits"][2] == ""


def test_idle_time_is_given_by_cause_in_points_of_what_is_shown():
    found = rows(made(0), made(4))
    for label in ("in all", "waiting for the host"):
        old, new, change = found[label]
        points = int(old.rstrip("%")) - int(new.rstrip("%"))
        assert points > 1 and change == f"−{points} points"
    assert found["other"][2] == ""


def test_counts_stand_beside_what_they_were():
    found = rows(made(0), made(4))
    assert found["host syncs"] == ["32", "0", "−32"]
    assert found["pinned uploads"] == ["0", "1", "+1"]
    assert found["kernels"] == ["32", "32", ""]
    assert list(found)[-7:] == [
        "host syncs",
        "pageable uploads",
        "pinned uploads",
        "downloads",
        "copies on the device",
        "kernels",
        "graph launches",
    ]


def test_the_caption_says_what_the_numbers_are_of():
    recorded, live = made(0, source="recorded on an H200"), made(0, source="modelled")
    assert caption(live, None) == caption(live, live) == "modelled"
    assert caption(live, recorded) == "after: modelled; before: recorded on an H200"


def test_no_address_of_the_outside_world_is_in_the_browsers_part():
    source = str(FigureTable._esm)
    for word in ("http:", "https:", "fetch(", "import ", "import(", "url(", "innerHTML"):
        assert word not in source
