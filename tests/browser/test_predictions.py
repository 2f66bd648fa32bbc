"""Questions in JupyterLab: Run All reveals no answer, and answers appear once the reader
commits."""

import pytest

from tests.chapters.notebooks import REFERENCES, cells_of
from tests.chapters.spoilers import questions

from .chromium import need
from .test_jupyterlab import browser_page, lab, screenshots  # noqa: F401  # fixtures

pytestmark = [pytest.mark.browser, pytest.mark.deep, pytest.mark.timeout(300)]
WITHHELD = "The answer appears here once you have committed"


def test_run_all_keeps_answers_back_until_one_commits(lab, browser_page, screenshots):  # noqa: F811
    need("jupyterlab", "playwright")
    from .jupyterlab import OpenNotebook

    first = next(questions(cells_of(REFERENCES[0])))
    page, watch = browser_page
    page.goto(lab.url("00_reading_a_timeline.ipynb"))
    notebook = OpenNotebook(page)
    notebook.wait_for_kernel()
    notebook.run_all_cells(seconds=120)
    assert notebook.errors() == []

    field = "input[placeholder*='from 5 to 9']"
    question = notebook.cell_with(field)
    assert question.locator(field).input_value() == ""
    answer = notebook.cell_with(f"text={WITHHELD}")
    number = answer.get_attribute("data-windowed-list-index")
    assert first.answer not in answer.inner_text()

    question = notebook.cell_with(field)
    question.get_by_role("button", name="Commit").click()
    question.get_by_text("The field is empty").wait_for()
    question.locator(field).fill("1 to 3")
    page.keyboard.press("Enter")
    question.get_by_text("You said 1 to 3 ").wait_for()
    assert question.locator(field).is_disabled()
    page.screenshot(path=screenshots / "00_prediction_committed.png")
    answer = page.locator(f".jp-Cell[data-windowed-list-index='{number}']")
    answer.scroll_into_view_if_needed()
    answer.get_by_text(first.answer, exact=True).wait_for()

    drawn = notebook.cell_with(".debubble-timeline.asks canvas")
    drawn.locator(".asks canvas").focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    drawn.get_by_role("button", name="Commit").click()
    drawn.get_by_text("You said 0.00 to").wait_for()
    page.screenshot(path=screenshots / "00_prediction_drawn.png")

    assert watch.outside_requests == []
    assert watch.console_errors == []
