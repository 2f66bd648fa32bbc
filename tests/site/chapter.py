"""A made-up chapter with a view of each kind, stored as chapters are."""

from __future__ import annotations

from dataclasses import dataclass

import nbformat
from matplotlib.figure import Figure
from nbformat import NotebookNode

from debubble.views.dashboard import Dashboard
from debubble.views.dashboard.settings import Amounts
from debubble.views.drawing import Drawing
from debubble.views.explorer import explore
from debubble.views.prediction import predict_stretch
from debubble.views.race.widget import Race
from debubble.views.timeline.widget import TimelineWidget
from tests.timeline.recordings import transformer_step
from tests.views.held_jobs import SLIDERS, TOGGLES, HeldJobs, run


@dataclass(frozen=True)
class Bar:
    width: int
    height: int

    @property
    def figure(self) -> Figure:
        return Figure((self.width, self.height), 50, facecolor="#0072b2", label=self.text)

    @property
    def text(self) -> str:
        return f"a bar of {self.width} by {self.height}"


STORY = """# 00 · Made up

See [the next one](01_more.ipynb), [a kata](../katas/first_steps/keep_it_on_the_device.py) and
[a file](../solutions/engine/engine.py).

| | |
|---|---|
| Time | 5 minutes |

```
host ──► stream 0 ──► a queue that is wider than any window of 400 pixels is
```
"""
CHOICES = "Predict: which line?\n  ( ) x.item()\n  ( ) y < 3"
SUMMARY = "Your predictions against what happened: 2 questions"


def made_up_chapter() -> NotebookNode:
    """Returns a made-up chapter with a view of each kind and its stored outputs. DEBUBBLE_STORING
    has to be 1, as when chapters are stored."""
    after, before = transformer_step(0), transformer_step(4)
    bars = Drawing(Bar, width=("how wide", (1, 2, 4), 2), height=("how high", (1, 2), 1))
    layers = explore("layers", range(1, 6), lambda n: transformer_step(1, layers=n))
    sliders = {**SLIDERS, "batch": Amounts(SLIDERS["batch"], "requests")}
    panel = Dashboard(TOGGLES, sliders, run, start=((), {"batch": 4}), jobs=HeldJobs())
    drawn = predict_stretch("from when to when?", 8, {"a kernel": (0, 2)})
    cells = [
        text(STORY),
        code("before.show()", data=TimelineWidget(before)._repr_mimebundle_()),
        code("print(7)  # a comment", stream="7\n"),
        text("## First question"),
        code('waits = predict("how many?")\nwaits', data=words("Predict: how many waits?")),
        code("waits.compare(count)", data=words("1,032 waits\nOne a layer.")),
        code("after.show(before)", data=TimelineWidget(after, before)._repr_mimebundle_()),
        code('line = predict_line("which line?", lines)\nline', data=words(CHOICES)),
        code('line.compare("x.item()")', data=words("x.item()")),
        code("gap = where()\ngap", data=drawn._repr_mimebundle_()),
        code("gap.compare((2, 3))", data=words("Here is what happened:")),
        text("## The end"),
        code("layers", data=layers._repr_mimebundle_()),
        code("bars", data=bars._repr_mimebundle_()),
        code("panel", data=panel._repr_mimebundle_()),
        code('Race("01")', data=Race("01")._repr_mimebundle_()),
        code("show_predictions()", data=words(SUMMARY)),
    ]
    return nbformat.v4.new_notebook(cells=cells)


def text(source: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def code(source: str, stream: str = "", data=None) -> NotebookNode:
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=stream)] if stream else []
    if data:
        by_type = {name: encoded(value) for name, value in data[0].items()}
        outputs.append(
            nbformat.v4.new_output(
                "execute_result", data=by_type, metadata=data[1], execution_count=1
            )
        )
    return nbformat.v4.new_code_cell(source, outputs=outputs, execution_count=1)


def words(plain: str) -> tuple[dict, dict]:
    return {"text/plain": plain}, {}


def encoded(value: object) -> object:
    """Returns bytes in base64, as a kernel sends them, and other values unchanged."""
    from base64 import b64encode

    return b64encode(value).decode() if isinstance(value, bytes) else value
