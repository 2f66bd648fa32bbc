"""The pages about your own waits: their examples wait at the named lines, and their output is
real."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/find_your_waits.md"
PAGES = [(PAGE, 0), (PAGE, 1), (ROOT / "docs/waits_in_vllm.md", 0)]
SHOWN = re.compile(r"<!-- (debubble syncs [^\n]+) -->\n```text\n(.*?)```", re.DOTALL)
WRITE = "DEBUBBLE_WRITE_DOCS"
"""The environment variable that makes this test write the commands' current output into the
pages."""


def printed(command: str) -> str:
    """Runs the command on sim in a terminal of 100 columns, and returns its output from the table
    on."""
    words = command.split()[1:]
    environment = os.environ | {"COLUMNS": "100", "DEBUBBLE_DEVICE": "sim"}
    done = subprocess.run(
        [sys.executable, "-m", "debubble", *words],
        cwd=ROOT / "docs/examples",
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("\n\n") :].strip("\n")
    return "\n".join(line.rstrip() for line in table.splitlines()) + "\n"


@pytest.mark.deep(3)
@pytest.mark.sim
@pytest.mark.parametrize(("page", "number"), PAGES)
def test_a_page_shows_what_its_commands_print(page, number):
    text = page.read_text()
    command, shown = SHOWN.findall(text)[number]
    now = printed(command)
    if os.environ.get(WRITE):
        place = [*SHOWN.finditer(text)][number]
        page.write_text(text[: place.start(2)] + now + text[place.end(2) :])
        shown = now
    assert now == shown, f"{WRITE}=1 pytest {Path(__file__).name} writes it again"


def test_the_action_names_options_that_there_are():
    """All options that the page's example of a GitHub Action uses are options of `debubble
    syncs`."""
    from typer.testing import CliRunner

    from debubble.cli import app

    help_text = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["syncs", "--help"]).stdout
    action = PAGE.read_text().partition("```yaml")[2].partition("```")[0]
    options = set(re.findall(r"--[a-z-]+(?= |$)", action)) - {"--extra-index-url", "--steps"}
    assert options
    assert all(option in help_text for option in options), options
