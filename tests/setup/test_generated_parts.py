"""The tables and lists in our pages match their sources; scripts write them."""

import importlib
import json
import re
import shutil
import sys
from datetime import date
from pathlib import Path

import pytest

from solutions.measure.stored import recording

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "scripts/environment/requirements.py"
PAGES = {"README.md": "chapters", "katas/README.md": "katas", "docs/workshop.md": "plan"}
PLACE = "\n<!-- katas: begin -->\n<!-- katas: end -->"
STORY = (
    "# 00 · Waiting\n\nThe GPU idles.\n\nMuch of it is waiting. Pull request #7 ended that. Look:"
)
KATA = """
[[kata]]
system = "{system}"
name = "{name}"
chapter = "{chapter}"
title = "The title of {name}"
teaches = "to wait for {name}"
task = "t"
hint = "h"
solution = "solutions.s.m:f"
before = "solutions.s.b:f"
stub_fails = []
"""


@pytest.fixture
def script(monkeypatch):
    """Returns script(name, *arguments), which runs our script scripts/<name>.py in this process and
    returns its exit status."""
    monkeypatch.syspath_prepend(ROOT / "scripts")

    def run(name: str, *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", [f"scripts/{name}.py", *arguments])
        return importlib.import_module(name).main()

    return run


@pytest.fixture
def workbook(script, monkeypatch, tmp_path):
    """Returns a folder with one chapter, its two katas, and pages with a place for each generated
    list."""
    monkeypatch.setattr(importlib.import_module("list_chapters"), "ROOT", tmp_path)
    for page, part in PAGES.items():
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text(
            f"above\n<!-- {part}: begin -->\n<!-- {part}: end -->\nbelow\n"
        )
    add_chapter(tmp_path, "00_waiting.ipynb", STORY + PLACE, cells=8)
    add_kata(tmp_path, system="first", name="one", chapter="00")
    add_kata(tmp_path, system="first", name="two", chapter="00")
    return tmp_path


def add_chapter(workbook: Path, name: str, story: str, cells: int = 1) -> None:
    sources = [[line + "\n" for line in story.splitlines()], *[["pass"]] * (cells - 1)]
    notebook = {"cells": [{"source": source} for source in sources]}
    for folder in ("chapters", "tests/chapters"):
        (workbook / folder).mkdir(parents=True, exist_ok=True)
        (workbook / folder / name).write_text(json.dumps(notebook))


def add_kata(workbook: Path, **entry: str) -> None:
    with (workbook / "katas/katas.toml").open("a") as catalogue:
        catalogue.write(KATA.format(**entry))


@pytest.mark.parametrize("name", ["show_results", "list_chapters", "list_refusals"])
def test_our_pages_are_current(script, name, capsys):
    assert script(name, "--check") == 0, capsys.readouterr().err


def test_a_chapter_is_listed_with_its_pull_request_and_its_katas(script, workbook):
    assert script("list_chapters") == 0
    readme = (workbook / "README.md").read_text()
    row = (
        "| [00 · Waiting](chapters/00_waiting.ipynb) "
        "| Pull request [#7](https://github.com/vllm-project/vllm/pull/7) ended that. "
        "| [2 katas](katas/README.md#first) |\n"
    )
    assert row in readme
    assert readme.startswith("above\n") and readme.endswith("\nbelow\n")


def test_a_chapter_that_names_no_pull_request_is_listed_with_its_first_sentence(script, workbook):
    add_chapter(workbook, "01_joined.ipynb", "# 01 · Joined\n\nAll in one engine. See #7 and #8.")
    script("list_chapters")
    row = "| [01 · Joined](chapters/01_joined.ipynb) | All in one engine. |  |\n"
    assert row in (workbook / "README.md").read_text()


def test_katas_are_listed_by_system_in_the_order_of_teaching(script, workbook):
    add_kata(workbook, system="early", name="three", chapter="01")
    script("list_chapters")
    katas = (workbook / "katas/README.md").read_text()
    parts = [
        "### first\nChapter [00 · Waiting](../chapters/00_waiting.ipynb)\n",
        "| [`one`](first/one.py) | The title of one |",
        "| [`two`](first/two.py) | The title of two |",
        "### early\nChapter 01\n",  # The chapter is not written yet.
        "| [`three`](early/three.py) | The title of three |",
    ]
    places = [katas.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize("folder", ["chapters", "tests/chapters"])
def test_a_chapter_has_a_table_of_its_katas(script, workbook, folder):
    script("list_chapters")
    story = json.loads((workbook / folder / "00_waiting.ipynb").read_text())["cells"][0]["source"]
    assert "| `katas/first/one.py` | to wait for one |\n" in story
    assert "| `katas/first/two.py` | to wait for two |\n" in story


def test_the_hours_of_a_chapter_follow_from_its_cells_and_katas(script, workbook):
    script("list_chapters")
    assert "| 8 | 2 | 0.5 |\n" in (workbook / "docs/workshop.md").read_text()


def test_a_list_that_is_not_current_is_named_and_left_alone(script, workbook, capsys):
    script("list_chapters")
    add_kata(workbook, system="first", name="three", chapter="00")
    before = {page: (workbook / page).read_text() for page in PAGES}
    assert script("list_chapters", "--check") == 1
    complaints = capsys.readouterr().err
    assert "katas/README.md: 'katas' is not current: run scripts/list_chapters.py" in complaints
    assert {page: (workbook / page).read_text() for page in PAGES} == before
    assert script("list_chapters") == 0
    assert script("list_chapters", "--check") == 0


@pytest.mark.parametrize("option", ["--chek", "--help"])
def test_an_option_that_is_not_known_or_asks_for_help_writes_nothing(script, workbook, option):
    before = {page: (workbook / page).read_text() for page in PAGES}
    with pytest.raises(SystemExit):
        script("list_chapters", option)
    assert {page: (workbook / page).read_text() for page in PAGES} == before


def test_a_page_without_a_place_for_its_list_is_refused_and_stays_whole(script, workbook):
    (workbook / "README.md").write_text("above\n<!-- chapters: begin -->\nall the rest\n")
    with pytest.raises(SystemExit, match=r"README\.md has no place for 'chapters'"):
        script("list_chapters")
    assert "all the rest" in (workbook / "README.md").read_text()


@pytest.mark.parametrize("story", ["# Waiting\n\nThe GPU idles.", "# 00 · Waiting"])
def test_a_chapter_without_number_or_story_is_refused(script, workbook, story):
    add_chapter(workbook, "00_waiting.ipynb", story)
    with pytest.raises(SystemExit, match="it needs `# NN · Title`, and a story below it"):
        script("list_chapters")


def test_every_gpu_that_measured_has_rows_with_a_link_to_its_data(script, monkeypatch, tmp_path):
    show_results = importlib.import_module("show_results")
    monkeypatch.setattr(show_results, "PAGE", tmp_path / "results.md")
    for gpu in ("nvidia-h200", "nvidia-other"):
        shutil.copytree(ROOT / "assets/benchmarks/nvidia-h200", tmp_path / "benchmarks" / gpu)
    table = show_results.results_table(tmp_path / "benchmarks")
    for system, results in show_results.SYSTEMS.items():
        for gpu in ("nvidia-h200", "nvidia-other"):
            assert table.count(f"(benchmarks/{gpu}/{system}.json)") == len(results.presets)


def test_each_row_says_its_size_its_day_and_what_before_is(script):
    """Each headline on our pages says what "before" is, has two model sizes and a day; each row of
    results has a day."""
    show_results = importlib.import_module("show_results")
    benchmarks = ROOT / "assets/benchmarks"
    headlines = show_results.headlines_table(benchmarks / show_results.HEADLINES_OF)
    for row in headlines.splitlines()[2:]:
        _, before, small, large, day = [cell.strip() for cell in row.strip("|").split("|")]
        assert before
        assert all(re.match(r"\d+ layers of \d+.*: .* → ", model) for model in (small, large))
        assert date.fromisoformat(day)
    for row in show_results.results_table(benchmarks).splitlines()[2:]:
        assert date.fromisoformat(row.strip("|").split("|")[-1].strip())


def test_idle_of_one_step_is_one_figure(script):
    """The table of costs and the picture of the same step show the same idle share, for each
    GPU."""
    show_results = importlib.import_module("show_results")
    for gpu in (ROOT / "assets/benchmarks").iterdir():
        shown = show_results.costs_of(gpu, "pinned_h2d", "small")
        for variant, cost in zip(("before", "after"), shown, strict=True):
            idle = recording("pinned_h2d", variant, gpu.name).idle_share()
            assert cost.endswith(f"idle {idle:.0%}")


def test_pages_give_the_sizes_that_the_set_up_prints(script):
    sizes = re.search(r'"cpu": \("(.+?)", "(.+?)"\)', REQUIREMENTS.read_text())
    assert sizes
    downloads, disk = sizes.groups()
    assert f"downloads {downloads}" in (ROOT / "README.md").read_text()
    assert f"and {disk} of disk" in (ROOT / "README.md").read_text()
    assert f"| {disk} |" in (ROOT / "docs/machines.md").read_text()
    assert f"`make lab`: {downloads} once" in (ROOT / "docs/workshop.md").read_text()
