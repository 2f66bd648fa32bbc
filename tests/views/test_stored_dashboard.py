"""The runs that a dashboard stores for a page without a kernel, and the clicks to them."""

import json
from itertools import product

from debubble.views.dashboard.embedded import embedded, key_of
from debubble.views.dashboard.settings import Amounts, Choices

from .held_jobs import run

TOGGLES = {name: f"{number:02} {name}: what it does" for number, name in enumerate("abcde", 1)}
SLIDERS = {"batch": Amounts((2, 4, 8), "requests"), "layers": (2, 8), "prefix": (0, 32, 256)}


def stored(start):
    """Returns the stored data of a dashboard of five switches and three sliders."""
    choices = Choices(TOGGLES, SLIDERS)
    begun = choices.settings(*start)
    made = run(frozenset(), {"batch": 1, "layers": 2})
    about, states = embedded(choices, begun, lambda settings: made)
    assert len(states) == len(about["runs"])
    return about


def reached(about) -> set[str]:
    """Returns the keys of the runs that a reader reaches: by a switch, a button, or a slider moved
    by one value. A step to a run that is not stored goes back."""
    sliders = [slider["options"] for slider in about["sliders"]]
    seen, new = set(), [about["start"]]
    while new:
        key = new.pop()
        if key in seen or key not in about["runs"]:
            continue
        seen.add(key)
        on, values = json.loads(key)
        choices = [[one for one in TOGGLES if (one in on) != (one == turned)] for turned in TOGGLES]
        new += [encoded(some, values) for some in (*choices, *about["presets"].values())]
        for place, options in enumerate(sliders):
            for by in (-1, 1):
                at = options.index(values[place]) + by
                if 0 <= at < len(options):
                    moved = [*values[:place], options[at], *values[place + 1 :]]
                    new.append(encoded(on, moved))
    return seen


def encoded(on, values) -> str:
    return json.dumps([[*on], [*values]], separators=(",", ":"))


def test_each_combination_of_the_switches_is_stored_and_clicks_reach_each_run():
    for on, values in (((), {}), (("b",), {"batch": 4, "prefix": 32})):
        about = stored((on, values))
        start = json.loads(about["start"])[1]
        for chosen in product((False, True), repeat=len(TOGGLES)):
            names = [name for name, is_on in zip(TOGGLES, chosen, strict=True) if is_on]
            assert encoded(names, start) in about["runs"]
        assert reached(about) == set(about["runs"])


def test_buttons_are_named_by_chapters_and_lead_to_none_each_all_but_each_and_all():
    presets = Choices(TOGGLES, {}).presets
    assert presets["none"] == () and presets["all"] == tuple("abcde")
    assert presets["only 03"] == ("c",) and presets["all but 03"] == ("a", "b", "d", "e")
    assert len(presets) == 12
    assert [*Choices({"pinned": "One upload"}, {}).presets] == [
        "none", "only pinned", "all but pinned", "all",
    ]  # fmt: skip


def test_the_key_of_settings_is_the_one_that_pages_make():
    assert key_of(Choices(TOGGLES, SLIDERS).settings("a", {})) == '[["a"],[2,2,0]]'
