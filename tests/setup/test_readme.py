"""The README's figures are those of the stored benchmarks."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_benchmarks_say():
    script = [sys.executable, "scripts/show_results.py", "--check"]
    run = subprocess.run(script, cwd=ROOT, check=False)
    assert run.returncode == 0, "run scripts/show_results.py"


def test_every_file_that_the_readme_shows_exists():
    text = (ROOT / "README.md").read_text()
    shown = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert shown
    assert [path for path in shown if not (ROOT / path).exists()] == []
