"""The site in a real Chromium, opened from files and from a web server, without a network."""

from __future__ import annotations

import functools
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest

from tests.browser.chromium import quiet_page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
CHAPTER = "00_made_up.html"


@pytest.fixture(scope="module")
def site(written, tmp_path_factory):
    """Returns the folder of a small site: a made-up chapter, some pages of katas, the glossary and
    a reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBUBBLE_STORING", "1")
        from scripts.site import chapters, docs, front, katas, reference

        from .chapter import made_up_chapter

        made = tmp_path_factory.mktemp("chapters")
        nbformat.write(made_up_chapter(), made / "00_made_up.ipynb")
        more = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# 01 · More")])
        nbformat.write(more, made / "01_more.ipynb")
    of_chapters = [chapters.page_of(path) for path in sorted(made.glob("*.ipynb"))]
    of_katas = katas.pages(ROOT)
    others = [*docs.pages(ROOT), reference.page_of("debubble")]
    first = [front.page(ROOT, of_chapters), katas.index(ROOT, of_chapters)]
    return written([*first, *of_chapters, *of_katas[:4], *others])


@pytest.fixture(scope="module")
def server(site):
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def served(browser, server):
    """Returns served(path), which opens a page of the small site from a web server, with the same
    checks as `opened`."""
    with quiet_page(browser, server) as page:
        yield lambda path: page.goto(f"{server}/{path}") and page


def awake(page, view: str, number: int = 0):
    figure = page.locator(f".live[data-view={view}]").nth(number)
    figure.scroll_into_view_if_needed()
    figure.locator("xpath=self::*[contains(@class, 'awake')]").wait_for()
    settle(page)
    return figure


def settle(page) -> None:
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def open_everything(page) -> None:
    page.get_by_role("button", name="Open everything").click()


@pytest.fixture
def page(opened):
    """Returns the chapter's page."""
    return opened(CHAPTER)


def test_a_timeline_lives_it_zooms_and_answers(page):
    figure = awake(page, "timeline")
    canvas, root = figure.locator("canvas"), figure.locator(".debubble-timeline")
    everything = root.get_attribute("data-end")
    canvas.hover(position={"x": 300, "y": 108})
    assert "kernel" in figure.locator(".tip").inner_text()
    canvas.focus()
    page.keyboard.press("+")
    settle(page)
    assert float(root.get_attribute("data-end")) < float(everything)
    assert figure.locator(".still").is_hidden()


def test_arrow_keys_go_from_event_to_event(page):
    figure = awake(page, "timeline")
    for _ in range(3):
        figure.locator("canvas").press("ArrowRight")
    settle(page)
    assert "event 3 of" in figure.locator(".step-head").inner_text()
    assert figure.locator(".lit").count() == 1
    assert figure.locator(".panel").all_inner_texts()[0].startswith("host")


def test_a_drawn_answer_fills_the_field_of_its_question(page):
    open_everything(page)
    figure = awake(page, "question")
    for _ in range(40):
        figure.locator("canvas").press("ArrowRight")
    settle(page)
    field = page.locator("form.question input[name=said]").last
    assert field.input_value() == "0.00 to 4.00"


def test_what_follows_a_question_is_kept_back_until_one_commits(page):
    hidden = page.get_by_text("One a layer.")
    assert hidden.is_hidden()
    goes_on = page.get_by_text("The chapter goes on below this question").first
    assert goes_on.is_visible()
    assert page.get_by_role("heading", name="The end").is_hidden()
    field = page.get_by_label("My answer").first
    assert field.input_value() == ""
    page.get_by_role("button", name="Commit").first.click()
    assert "The field is empty" in page.locator(".verdict").first.inner_text()
    field.fill("several")
    page.keyboard.press("Enter")
    assert "is no answer" in page.locator(".verdict").first.inner_text()
    assert hidden.is_hidden()
    field.fill("1000 to 1,100")
    page.keyboard.press("Enter")
    assert hidden.is_visible()
    assert goes_on.is_hidden()
    assert page.get_by_text("You said 1000 to 1,100. It is within your range.").is_visible()
    assert page.get_by_role("heading", name="The end").is_hidden(), "another question is open"
    page.get_by_label("y < 3").check()
    page.get_by_role("button", name="Commit").last.click()
    assert page.get_by_text("You said y < 3.").is_visible()
    page.get_by_label("My answer").last.fill("2.00 to 3.00")
    page.keyboard.press("Enter")
    assert page.get_by_role("heading", name="The end").is_visible()
    rows = page.locator(".summary tbody tr").all_inner_texts()
    assert [row.split("\t")[1:] for row in rows] == [
        ["1000 to 1,100", "1,032 waits"],
        ["y < 3", "x.item()"],
        ["2.00 to 3.00", "Here is what happened:"],
    ]


def test_a_prediction_outlives_a_reload_and_can_be_declined(page):
    page.evaluate("localStorage.clear()")
    page.get_by_role("button", name="Show without a prediction").first.click()
    assert page.get_by_text("One a layer.").is_visible()
    page.reload()
    assert page.get_by_text("One a layer.").is_visible()
    assert page.get_by_text("Shown without a prediction.").is_visible()


def test_an_explorers_slider_changes_the_timeline_on_one_axis(page):
    open_everything(page)
    figure = awake(page, "explorer")
    slider = figure.get_by_role("slider", name="layers")
    assert slider.get_attribute("aria-valuetext") == "3"
    counts, root = figure.locator(".counts"), figure.locator(".debubble-timeline")
    assert "12 kernels" in counts.inner_text()
    end = root.get_attribute("data-end")
    slider.focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert "16 kernels" in counts.inner_text()
    page.keyboard.press("Home")
    settle(page)
    assert "4 kernels" in counts.inner_text()
    assert root.get_attribute("data-end") == end


def test_a_drawings_sliders_show_the_picture_of_what_they_say(page):
    open_everything(page)
    figure = awake(page, "drawing")
    image = figure.locator("div:not(.still) > img")
    assert image.get_attribute("alt") == "a bar of 2 by 1"
    wide, high = figure.get_by_role("slider").all()
    wide.focus()
    page.keyboard.press("End")
    assert image.get_attribute("alt") == "a bar of 4 by 1"
    high.focus()
    page.keyboard.press("End")
    assert image.get_attribute("alt") == "a bar of 2 by 2"
    assert wide.get_attribute("aria-valuetext") == "2", "the others go back, and say so"
    size = image.evaluate("(image) => image.decode().then(() => image.naturalWidth)")
    assert size > 0


def test_a_dashboard_shows_the_run_that_its_controls_say(page):
    open_everything(page)
    figure = awake(page, "dashboard")
    status, counts = figure.locator(".debubble-status"), figure.locator(".counts")
    assert status.inner_text() == "Shown: batch 4, layers 2, nothing on"
    assert "8 host syncs" in counts.inner_text()
    figure.get_by_label("One pinned upload").check()
    settle(page)
    assert status.inner_text() == "Shown: batch 4, layers 2, on: pinned"
    assert "8 → 0 host syncs" in counts.inner_text()
    row = figure.locator(".debubble-figures tr", has_text="host syncs")
    assert row.inner_text().split("\t") == ["host syncs", "8", "0", "−8"]
    figure.get_by_role("slider", name="layers").press("End")
    settle(page)
    assert status.inner_text() == "Shown: batch 4, layers 8, on: pinned"
    assert "8 → 32 kernels" in counts.inner_text()


def test_a_dashboards_buttons_and_its_leading_figure(page):
    open_everything(page)
    figure = awake(page, "dashboard")
    leading = figure.locator(".debubble-leading")
    first = leading.inner_text()
    assert first.endswith("tokens/s") and "→" not in first
    figure.get_by_role("button", name="all", exact=True).click()
    settle(page)
    assert figure.get_by_label("One pinned upload").is_checked()
    assert figure.get_by_label("One graph").is_checked()
    before, after = leading.inner_text().split(" → ")
    assert f"{before} tokens/s" == first and " tokens/s, × " in after
    figure.get_by_role("button", name="none", exact=True).click()
    settle(page)
    assert f"→ {first}" in leading.inner_text()


def test_a_control_that_leads_to_what_was_not_recorded_goes_back(page):
    open_everything(page)
    figure = awake(page, "dashboard")
    figure.get_by_label("One graph").check()
    figure.get_by_role("slider", name="batch").press("End")
    settle(page)
    words = figure.locator(".debubble-status").inner_text()
    assert words.startswith("These settings were not recorded for this page. Shown: batch 4")
    slider = figure.get_by_role("slider", name="batch")
    assert slider.get_attribute("aria-valuetext") == "4 requests"


def test_a_chapter_has_a_race_that_leaves_the_address_alone(page):
    open_everything(page)
    program = page.get_by_label("The program before")
    assert "upload pageable" in program.input_value()
    program.fill("kernel\nitem")
    assert "1 wait" in page.locator(".before .figures").inner_text()
    page.wait_for_timeout(500)
    assert "#" not in page.url


def test_the_address_holds_the_zoom_of_a_timeline(page):
    figure = awake(page, "timeline")
    figure.locator("canvas").focus()
    page.keyboard.press("+")
    page.wait_for_function("location.hash.startsWith('#view-1=')")
    root = figure.locator(".debubble-timeline")
    seen = [root.get_attribute(f"data-{end}") for end in ("start", "end")]
    assert page.url.endswith(f"#view-1={'..'.join(seen)}")
    other = page.context.browser.new_page()
    other.goto(page.url)
    again = awake(other, "timeline").locator(".debubble-timeline")
    assert [again.get_attribute(f"data-{end}") for end in ("start", "end")] == seen
    other.close()
    page.keyboard.press("Home")
    page.wait_for_function("location.hash === '#view-1'")


def test_the_address_holds_the_settings_of_a_dashboard(page):
    open_everything(page)
    figure = awake(page, "dashboard")
    figure.get_by_label("One pinned upload").check()
    figure.get_by_role("slider", name="layers").press("End")
    page.wait_for_function("location.hash.endsWith('=pinned;4,8')")
    page.reload()
    open_everything(page)
    figure = awake(page, "dashboard")
    status = figure.locator(".debubble-status").inner_text()
    assert status == "Shown: batch 4, layers 8, on: pinned"
    assert figure.get_by_label("One pinned upload").is_checked()
    assert figure.get_by_role("slider", name="layers").get_attribute("aria-valuetext") == "8"


@pytest.mark.parametrize(
    ("view", "words", "label"), [("explorer", "5", "layers"), ("drawing", "4,1", "how wide")]
)
def test_the_address_sets_a_slider(view, words, label, page):
    open_everything(page)
    figure = awake(page, view)
    page.evaluate("(end) => (location.hash = end)", f"{figure.get_attribute('id')}={words}")
    page.wait_for_timeout(100)
    slider = figure.get_by_role("slider", name=label)
    assert slider.get_attribute("aria-valuetext") == words.partition(",")[0]


NOTHING = ("", "x", "9..1", "NaN..2", "1e9..2e9", "99,99", "pinned", "x;4,8", "__proto__;4,8",
           "pinned;4,9", "<img src=x onerror=alert(1)>", "%E0%A4%A", "1" * 900)  # fmt: skip


@pytest.mark.parametrize("view", ["timeline", "explorer", "drawing", "dashboard"])
def test_an_address_that_asks_for_nothing_is_refused_in_a_sentence(view, page):
    open_everything(page)
    figure = awake(page, view)
    shown = figure.locator(".debubble-status, output").all_inner_texts()
    for words in NOTHING:
        end = f"#{figure.get_attribute('id')}={words}"
        page.evaluate("(end) => history.replaceState(null, '', end)", end)
        page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
        figure.get_by_text("so it shows all of it").wait_for()
        assert figure.locator(".debubble-status, output").all_inner_texts() == shown
        page.evaluate("document.querySelector('.refused').remove()")


def test_without_scripts_pictures_keep_their_words_and_nothing_is_kept_back(browser, site):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{site.as_uri()}/{CHAPTER}")
    alts = [image.get_attribute("alt") for image in page.locator(".still img").all()]
    assert len(alts) == 5 and all(alts)
    assert "32 kernels" in alts[0] and "modelled on NVIDIA H200" in alts[0]
    assert page.get_by_text("One a layer.").is_visible()
    assert page.locator("pre", has_text="Predict: how many waits?").is_visible()
    page.context.close()


def test_a_web_server_gives_the_same(served):
    page = served(CHAPTER)
    assert awake(page, "timeline").locator("canvas").is_visible()
    page.get_by_label("My answer").first.fill("3")
    page.keyboard.press("Enter")
    assert page.get_by_text("One a layer.").is_visible()
    open_everything(page)
    figure = awake(page, "explorer")
    figure.get_by_role("slider", name="layers").press("End")
    settle(page)
    assert "20 kernels" in figure.locator(".counts").inner_text()


@pytest.mark.deep
@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 400), ("dark", 900)])
def test_nothing_keeps_people_out(browser, site, scheme, width):
    from tests.browser.axe import violations

    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for path in PAGES:
        page.goto((site / path).as_uri())
        for button in page.get_by_role("button", name="Open everything").all():
            button.click()
        for figure in page.locator(".live").all():
            figure.scroll_into_view_if_needed()
        settle(page)
        for name in (
            "Show the events as a table",
            "Mark the visible part and sum it up",
            "Go from event to event",
        ):
            for button in page.get_by_role("button", name=name).all():
                button.click()
        settle(page)
        assert violations(page) == [], path
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{path} is {overflow} pixels wider than its window"
        assert page.evaluate(BROKEN) == [], path
    context.close()


BROKEN = """() => {
  const lines = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return new Set([...range.getClientRects()].map((place) => Math.round(place.bottom))).size;
  };
  const nodes = document.querySelectorAll(".debubble-slider output, .text pre");
  return [...nodes].filter((node) => lines(node) > node.textContent.trim().split("\\n").length)
    .map((node) => node.textContent);
}"""
"""JavaScript that returns the texts of amounts beside a slider, and of text in fixed columns, which
wrap into more lines than they have."""
PAGES = (
    CHAPTER,
    "index.html",
    "katas/first_steps/keep_it_on_the_device.html",
    "reference/debubble.html",
)


def test_views_that_were_stored_without_their_data_are_counted(tmp_path, monkeypatch):
    from scripts.site import chapters

    from .chapter import made_up_chapter

    path = tmp_path / "00_made_up.ipynb"
    for storing, number in (("1", 0), ("0", 5)):
        monkeypatch.setenv("DEBUBBLE_STORING", storing)
        nbformat.write(made_up_chapter(), path)
        assert chapters.stills(chapters.page_of(path)) == number


def test_links_lead_to_pages_that_there_are(site):
    for path in site.rglob("*.html"):
        for target in re.findall(r'href="([^"#:]+)(?:#[^"]*)?"', path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} leads to {target}"
    page = (site / CHAPTER).read_text()
    assert 'href="01_more.html"' in page
    assert 'href="katas/first_steps/keep_it_on_the_device.html"' in page
    assert "<span title=" in page, "a file of the repository has no page: its name stays as words"


def test_the_page_of_katas_has_them_below_their_chapters(site):
    katas = (site / "katas/index.html").read_text()
    _, of_first, of_second = re.split("<h2", katas)
    assert "Keep it on the device</a> (easy, 5 minutes)" in of_first
    assert "One tensor for all requests" in of_second and "One tensor" not in of_first


def test_a_table_without_headings_begins_with_its_first_row(opened):
    table = opened(CHAPTER).locator("table", has_text="5 minutes")
    assert table.get_by_text("5 minutes").is_visible()
    assert table.locator("thead").is_hidden()


def test_a_katas_page_has_its_task_its_hints_folded_and_the_command(opened):
    page = opened("katas/first_steps/keep_it_on_the_device.html")
    assert page.get_by_text("it reads every loss from the device one by one").is_visible()
    assert "debubble watch keep_it_on_the_device" in page.locator("pre").nth(1).inner_text()
    first = page.locator("main details").first
    assert first.get_by_text("How many times does the loop wait").is_hidden()
    first.locator("summary").click()
    assert first.get_by_text("How many times does the loop wait").is_visible()


def test_the_reference_has_each_public_name(site):
    import debubble

    words = (site / "reference/debubble.html").read_text()
    for name in (*debubble.__all__, "Accelerator", "Timeline.bubbles", "Accelerator.launch"):
        assert re.search(rf"<h[23][^>]*>{re.escape(name)}\s*<", words), name


def test_the_number_of_a_pull_request_is_no_heading():
    from scripts.site.reference import as_markdown

    assert as_markdown("A queue (vLLM\n#42212).") == "A queue (vLLM\n\\#42212)."


def files_of(page: Path) -> list[Path]:
    """Returns the paths of a page and of the files that it loads: not those that it links to."""
    loads = r'<(?:script|link|img)\b[^>]*?\s(?:src|href)="([^":]*static/[^"]*)"'
    loaded = re.findall(loads, page.read_text())
    return [page, *(page.parent / name for name in loaded)]
