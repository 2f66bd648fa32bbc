"""The site as a book, in Chromium: each feature as a reader uses it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

import nbformat
import pytest
from nbformat import NotebookNode

from .chapter import code, made_up_chapter, text

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
CHAPTER = "00_made_up.html"
REPOSITORY = "https://github.com/owner/debubble"
MORE = """# 01 · More

The word **kernels** is in the glossary. Pull request #38794 is upstream's, and
[the rules](../debubble/rules/copies.py) are a file.

## Twice
One.

## Twice
Another.
"""
FOLDED = "### If you want to know more: [a fold](00_made_up.ipynb) of **kernels**, and PR #38794"
FOLD = "If you want to know more: a fold of kernels, and PR #38794"
STATES = ["", "null", "[]", "3", '"x"', "{", '{"question-1": {"a": 1}}', '{"question-1": 7}']
STATES += [
    json.dumps({"question-1": "<img src=x onerror=alert(1)>"}),
    "[" * 100_000,
    "x" * 2_000_000,
]
STATES += [json.dumps({"__proto__": "x", "constructor": "y", "question-1": "a" * 100_000})]


@pytest.fixture(scope="module")
def site(written, tmp_path_factory):
    """Returns the folder of a small site that knows its repository and its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEBUBBLE_STORING", "1")
        from scripts.site import chapters, docs, front, katas
        from scripts.site.page import Site

        made = tmp_path_factory.mktemp("chapters")
        nbformat.write(made_up_chapter(), made / "00_made_up.ipynb")
        nbformat.write(chapter_with_folds(), made / "01_more.ipynb")
    of_chapters = [chapters.page_of(path) for path in sorted(made.glob("*.ipynb"))]
    pages = [front.page(ROOT, of_chapters), *of_chapters, *docs.pages(ROOT)]
    pages += [katas.index(ROOT, of_chapters), *katas.pages(ROOT)]
    return written(pages, Site(REPOSITORY, "https://example.org/book/"))


def chapter_with_folds() -> NotebookNode:
    """Returns a chapter whose end is two folded parts, one after the other, and a last heading."""
    cells = [
        text(MORE),
        folded(text(f"{FOLDED}\nIt begins at once."), begins=True),
        folded(code("print(8)", stream="eight waits\n")),
        folded(text("#### Deeper\nThe first fold ends with zanzibar.")),
        folded(text("### If you want to know more: another"), begins=True),
        folded(text("The second fold.")),
        text("## After the folds\nThe main path goes on."),
        code("hidden_in_the_lab = 1"),
    ]
    cells[-1].metadata["jupyter"] = {"source_hidden": True}
    return nbformat.v4.new_notebook(cells=cells)


def folded(cell: NotebookNode, begins: bool = False) -> NotebookNode:
    """Returns the cell with the tag of a folded part, and with a collapsed heading's mark if it
    begins the part."""
    cell.metadata["tags"] = ["more"]
    if begins:
        cell.metadata["jp-MarkdownHeadingCollapsed"] = True
    return cell


@pytest.fixture
def page(opened):
    """Returns the page of the chapter with folds."""
    return opened("01_more.html")


def test_each_heading_has_an_id_of_its_own_and_a_link(page):
    ids = page.locator("main h2").evaluate_all("(all) => all.map((one) => one.id)")
    assert ids == ["twice", "twice-1", "after-the-folds"]
    page.locator("#twice-1 .anchor").click()
    assert page.url.endswith("#twice-1")


def test_the_side_bar_has_the_pages_and_the_sections_of_this_one(page):
    bar = page.get_by_role("navigation", name="Pages of the book")
    assert bar.locator("[aria-current]").inner_text() == "01 · More"
    assert bar.locator(".sections a").all_inner_texts() == ["Twice", "Twice", "After the folds"]
    page.set_viewport_size({"width": 400, "height": 800})
    assert bar.is_hidden()
    page.get_by_role("button", name="Pages").click()
    assert bar.is_visible()


def test_one_page_leads_to_the_next_also_by_keys(opened):
    page = opened(CHAPTER)
    page.locator("footer [rel=next]").click()
    page.wait_for_url("**/01_more.html")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(f"**/{CHAPTER}")


def test_the_search_finds_sections_without_a_request(opened):
    page = opened("docs/results.html")
    page.keyboard.press("/")
    page.keyboard.type("pageable mem")
    first = page.locator("#search-results a").first
    first.wait_for()
    page.keyboard.type("ory")
    assert "sections found" in page.locator("#search-status").inner_text()
    page.keyboard.press("ArrowDown")
    target = first.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{target.removeprefix('../')}")
    page.keyboard.press("/")
    page.keyboard.type("xyzzy")
    page.get_by_text("Nothing has all these words.").wait_for()
    page.locator("#search").fill("xyzzy pageable memory")
    page.get_by_text("These sections have most of them:").wait_for()
    near = page.locator("#search-results li").all_inner_texts()
    assert near and all("pageable" in words.lower() for words in near)


def test_the_theme_is_the_readers_and_stays(opened, page):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    switch = page.locator("[data-theme-switch]")
    switch.click()
    switch.click()
    assert switch.inner_text() == "Theme: dark"
    dark = page.evaluate(ground)
    assert dark != light
    assert opened("glossary.html").evaluate(ground) == dark


def test_a_word_in_bold_says_what_it_means(page):
    page.locator(".term").focus()
    assert "function that runs on the" in page.get_by_role("tooltip").inner_text()
    page.keyboard.press("Escape")
    assert page.get_by_role("tooltip").is_hidden()
    page.locator(".term").click()
    page.wait_for_url("**/glossary.html#term-kernel")


def test_links_lead_to_pull_requests_and_to_the_repository(site):
    words = (site / "01_more.html").read_text()
    assert '<a href="https://github.com/vllm-project/vllm/pull/38794">#38794</a>' in words
    assert f'href="{REPOSITORY}/blob/main/debubble/rules/copies.py"' in words
    assert f'href="{REPOSITORY}/edit/main/chapters/01_more.ipynb"' in words
    assert f'<a href="{REPOSITORY}">Repository</a>' in words
    of_waits = (site / "docs/find_your_waits.html").read_text()
    assert f'<a href="{REPOSITORY}">a checkout of the repository</a>' in of_waits
    lab = "https://mybinder.org/v2/gh/owner/debubble/main?labpath=chapters/01_more.ipynb"
    assert f'href="{lab}"' in words
    colab = re.search(r'href="https://colab[^"]*/github/owner/debubble/blob/main/([^"]+)"', words)
    assert colab and (ROOT / colab[1]).exists()


def test_a_reader_who_has_only_the_site_gets_the_repositorys_files(tmp_path):
    from scripts.site import docs, front
    from scripts.site.files import write_archive, write_static
    from scripts.site.page import Site, write_all

    write_static(tmp_path)
    pages = [front.page(ROOT, []), *docs.pages(ROOT)]
    write_all(pages, tmp_path, Site(archive=write_archive(tmp_path, ROOT)))
    link = 'a checkout of the repository (<a href="{}static/debubble.zip">'
    assert link.format("../") in (tmp_path / "docs/find_your_waits.html").read_text()
    assert link.format("") in (tmp_path / "index.html").read_text()
    size = (tmp_path / "static/debubble.zip").stat().st_size / 1e6
    unpack = f"</a> of {size:.0f} MB: <code>unzip debubble.zip; cd debubble</code>)"
    assert unpack in (tmp_path / "docs/find_your_waits.html").read_text()
    names = set(ZipFile(tmp_path / "static/debubble.zip").namelist())
    assert {"debubble/pyproject.toml", "debubble/Makefile"} <= names


def test_each_page_describes_itself_and_has_a_picture(site):
    for path in site.rglob("*.html"):
        words = path.read_text()
        assert re.search(r'<meta content="[^"]{10,}" name="description"', words), path
        picture = re.search(r'content="https://example.org/book/([^"]+)" property="og:image', words)
        assert picture and (site / picture[1]).exists(), path


def test_each_picture_and_script_of_a_page_is_there(site):
    for path in site.rglob("*.html"):
        for source in re.findall(r' src="(?!data:)([^"]+)"', path.read_text()):
            assert (path.parent / source).exists(), f"{path.name} shows {source}"


def test_answers_outlive_the_tab_until_one_begins_again(opened):
    page = opened(CHAPTER)
    page.get_by_label("My answer").first.fill("1000 to 1,100")
    page.keyboard.press("Enter")
    other = page.context.new_page()
    other.goto(page.url)
    assert other.get_by_text("One a layer.").is_visible()
    other.get_by_role("button", name="Begin again").click()
    other.get_by_text("One a layer.").wait_for(state="hidden")


def test_a_page_reads_without_storage(browser, site):
    page = browser.new_page()
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() {throw new Error('no')}})"
    )
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{site.as_uri()}/{CHAPTER}")
    page.get_by_label("My answer").first.fill("3")
    page.keyboard.press("Enter")
    assert page.get_by_text("One a layer.").is_visible()
    page.locator("[data-theme-switch]").click()
    assert errors == []
    page.close()


def test_a_stored_state_that_no_page_wrote_breaks_nothing(opened):
    for state in STATES:
        page = opened(CHAPTER)
        page.evaluate(STORE, state)
        page.reload()
        assert page.get_by_role("button", name="Open everything").is_visible()
        assert page.locator("main [onerror]").count() == 0


STORE = """(state) => {
  localStorage.clear();
  for (const place of [`debubble ${location.pathname}`, "debubble theme"]) {
    try { localStorage.setItem(place, state); } catch { continue; }
  }
}"""


def test_print_hides_what_is_for_screens_and_cuts_no_code(opened):
    page = opened(CHAPTER)
    page.emulate_media(media="print")
    assert page.get_by_text("One a layer.").is_visible()
    assert page.locator("#book").is_hidden() and page.locator("header").is_hidden()
    assert page.locator(".input").first.evaluate("(e) => getComputedStyle(e).whiteSpace") != "pre"
    code = page.locator(".input pre").first
    assert code.evaluate("(e) => getComputedStyle(e).whiteSpace") == "pre-wrap"


def test_a_part_off_the_main_path_is_folded(page):
    first, second = (page.locator("details.more").nth(number) for number in (0, 1))
    assert page.locator("details.more").count() == 2
    assert first.locator("summary").inner_text().strip() == FOLD
    assert page.get_by_text("The main path goes on.").is_visible()
    inside = [page.get_by_text(words) for words in ("It begins at once.", "eight waits")]
    assert not any(words.is_visible() for words in inside)
    first.locator("summary").click(position={"x": 5, "y": 8})
    assert all(words.is_visible() for words in inside)
    assert second.get_by_text("The second fold.").is_hidden()


def test_code_that_the_lab_hides_is_folded(page):
    code = page.locator(".input", has_text="hidden_in_the_lab")
    assert code.is_hidden()
    page.locator("details.folded summary").click()
    assert code.is_visible()


@pytest.mark.parametrize(
    "anchor", ["if-you-want-to-know-more-a-fold-of-kernels-and-pr-38794", "deeper"]
)
def test_a_link_into_a_folded_part_opens_it_each_time(opened, anchor):
    page = opened(f"01_more.html#{anchor}")
    fold, target = page.locator("details.more").first, page.locator(f"#{anchor}")
    assert fold.get_attribute("open") is not None
    assert is_in_view(target)
    for _ in range(2):
        fold.evaluate("(fold) => (fold.open = false)")
        page.evaluate(FOLLOW, anchor)
        fold.get_by_text("It begins at once.").wait_for()
        assert is_in_view(target)
    assert page.locator("details.more").nth(1).get_attribute("open") is None


def is_in_view(locator) -> bool:
    return 0 <= locator.bounding_box()["y"] < locator.page.viewport_size["height"]


FOLLOW = """(anchor) => {
  const link = document.createElement("a");
  link.href = `#${anchor}`;
  document.body.append(link);
  link.click();
  link.remove();
}"""


def test_a_broken_address_opens_nothing_and_breaks_nothing(opened):
    assert opened("01_more.html#%E0%A4%A").locator("details.more[open]").count() == 0


def test_the_search_opens_a_folded_part(page):
    page.keyboard.press("/")
    page.keyboard.type("zanzibar")
    page.locator("#search-results a").first.click()
    page.locator("main").get_by_text("ends with zanzibar").wait_for()


def test_print_opens_folded_parts_and_closes_them_after(page):
    words = page.get_by_text("The second fold.")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert words.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert words.is_hidden()


def test_folded_parts_print_without_scripts(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/01_more.html")
    below = page.get_by_role("heading", name="After the folds")
    before = below.bounding_box()["y"]
    page.emulate_media(media="print")
    assert page.get_by_text("The second fold.").is_visible()
    assert below.bounding_box()["y"] > before
    context.close()


def test_a_question_in_a_folded_part_is_refused():
    from scripts.site.chapters import mark_folds, mark_questions

    asked = code(
        "waits = predict('how many?')\nwaits", data=({"text/plain": "Predict: how many?"}, {})
    )
    cells = [folded(text(FOLDED), begins=True), folded(asked), text("## The rest")]
    mark_questions(cells)
    with pytest.raises(ValueError, match=r"a fold.* asks a question"):
        mark_folds(cells)


def test_each_page_of_a_kata_shows_its_function(site):
    from debubble.exercises.kata_files.catalogue import Catalogue

    for kata in Catalogue(ROOT).katas:
        words = (site / f"katas/{kata.system}/{kata.name}.html").read_text()
        assert re.search(r'<span class="k">(def|class)</span>', words), kata.name
        assert "Yours to edit" not in words, kata.name
        assert f'<a href="{REPOSITORY}">a checkout of the repository</a>' in words, kata.name


def test_the_glossary_reads_on_a_narrow_screen(opened):
    page = opened("glossary.html")
    page.set_viewport_size({"width": 400, "height": 800})
    width = page.locator("#term-kernel + td").evaluate("(cell) => cell.clientWidth")
    assert width > 300


@pytest.mark.deep(2)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 400)])
def test_nothing_keeps_people_out(browser, site, scheme, width):
    from tests.browser.axe import violations

    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    for path in ("01_more.html", "docs/results.html", "glossary.html", "katas/index.html"):
        page.goto(f"{site.as_uri()}/{path}")
        assert violations(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
    context.close()
