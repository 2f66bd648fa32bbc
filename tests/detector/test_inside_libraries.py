"""Waits inside installed packages: the caller's line, and the library's own."""

import importlib
import inspect
import json
import re
import sys
import warnings

import pytest
import torch

import debubble
from debubble.contract import source_line
from debubble.detector.annotations import github, sarif
from debubble.detector.baseline import Baseline, NoBaseline
from debubble.views.syncs import text

LIBRARY = """
def generate(x):
    return pick(x)

def pick(x):
    return x.sum().item()  # the wait

def chosen(x, keep):
    return x[keep]  # another

def distribution(logits):
    import torch
    return torch.distributions.Categorical(logits=logits)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Returns a package that looks as if pip had installed it."""
    package = tmp_path / "site-packages" / "somebodys_models"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(package.parent))
    yield importlib.import_module("somebodys_models")
    del sys.modules["somebodys_models"]
    source_line._included.clear()
    source_line._whose.clear()


def waits(call):
    with debubble.find_host_syncs() as report:
        call()
    return report


def test_a_library_is_named_below_the_line_that_calls_it(x, library):
    report = waits(lambda: library.generate(x))  # the caller
    (finding,) = report.findings
    assert "# the caller" in finding.source.text
    assert [line.function for line in finding.source.inside] == ["generate", "pick"]
    assert "# the wait" in finding.innermost.text
    printed = str(report)
    assert "in somebodys_models/__init__.py:6: return x.sum().item()  # the wait" in printed
    assert "return pick(x)" not in printed
    assert "return pick(x)" in text(report.timeline, report.findings, [], stack=True)


def test_two_waits_of_one_call_are_two_findings(x, library):
    def both():
        library.generate(x), library.chosen(x, x > 0)

    found = waits(both).findings
    assert {finding.innermost.line for finding in found} == {6, 9}


def test_a_package_that_is_included_counts_as_ones_own(x, library):
    source_line.include_packages(["somebodys_models"])
    (finding,) = waits(lambda: library.generate(x)).findings
    assert "# the wait" in finding.source.text and not finding.source.inside


def test_what_torch_compile_has_written_is_nobodys_line(x, tmp_path, monkeypatch):
    """A wait in code that torch.compile has written is reported at the line of the caller. The
    compiled code lies in its own folder, which is no installed package."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    written = tmp_path / "fn" / "cfnpbjys.py"
    compiled: dict = {}
    exec(compile("def call(x):\n    return x.item()\n", str(written), "exec"), compiled)
    (finding,) = waits(lambda: compiled["call"](x.sum())).findings  # the caller
    assert "# the caller" in finding.source.text and not finding.source.inside


def test_an_installed_package_alone_is_not_dropped(x, library):
    """A wait in a thread that runs only installed code is still reported, at the package's own
    line."""
    import threading

    thread = threading.Thread(target=library.generate, args=(x,), name="theirs")

    def run():
        thread.start()
        thread.join()

    (finding,) = waits(run).findings
    assert "# the wait" in finding.source.text


def test_no_host_syncs_names_both(x, library):
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError) as caught:
        library.generate(x)  # the caller
    assert "# the caller" in caught.value.source.text
    assert str(caught.value).endswith(
        "in somebodys_models/__init__.py:6: return x.sum().item()  # the wait"
    )


def test_statements_on_one_line_are_told_apart(x):
    def twice():
        return x.sum().item(), x.mean().item()

    first, second = waits(twice).findings
    assert first.source.line == second.source.line
    assert {first.count, second.count} == {1}
    assert first.source.column != second.source.column


def test_waits_stand_before_uploads_that_do_not_wait(x, accelerator):
    def step():
        for _ in range(5):
            torch.ones(100_000).to(accelerator.device, non_blocking=True)
        x.sum().item()

    kinds = [finding.kind for finding in waits(step).findings]
    assert kinds == ["value", "staged_upload"]


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda x: torch.tensor([1, len(x)], device=x.device), "pin_memory=True).to(device, non_"),
        (lambda x: x.repeat_interleave(torch.tensor([1, 2, 1, 1]).to(x.device), 0), "output_size"),
        (lambda x: x.sum().item() if x.any() else 0, ""),
    ],
)
def test_each_finding_says_what_to_write_instead(x, call, instead):
    found = waits(lambda: call(x)).findings
    assert found and all(finding.instead for finding in found)
    assert any(instead in finding.instead for finding in found)


def test_annotations_stand_at_the_users_lines(x, library, monkeypatch, tmp_path):
    report = waits(lambda: library.generate(x))
    (finding,) = report.findings
    (command,) = github(report.findings)
    assert command.startswith("::warning file=") and f"line={finding.source.line}" in command
    assert "somebodys_models" in command and "\n" not in command
    log = json.loads(json.dumps(sarif(report.findings)))
    (run,) = log["runs"]
    (result,) = run["results"]
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region["startLine"] == finding.source.line
    assert len(result["stacks"][0]["frames"]) == 3


def test_what_a_baseline_has_is_not_new_even_if_lines_move(x, tmp_path):
    def program(lines_above: int) -> None:
        code = "\n" * lines_above + "def f(x):\n    x.sum().item()\n    return x\n"
        names: dict = {}
        exec(compile(code, str(tmp_path / "program.py"), "exec"), names)
        (tmp_path / "program.py").write_text(code)
        __import__("linecache").checkcache()
        names["f"](x)

    known = waits(lambda: program(0))
    (tmp_path / "known.json").write_text(json.dumps(known.as_dict()))
    baseline = Baseline.read(tmp_path / "known.json")
    assert baseline.new(waits(lambda: program(7)).findings) == []
    other = waits(lambda: x.cpu())
    assert baseline.new(other.findings) == other.findings


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"findings": [1]}', '{"findings": [{}]}'])
def test_what_is_no_baseline_is_one_sentence(tmp_path, content):
    (tmp_path / "known.json").write_text(content)
    with pytest.raises(NoBaseline, match="holds no findings: write it with"):
        Baseline.read(tmp_path / "known.json")


def test_a_wait_inside_pytorchs_python_shows_the_innermost_line_there(x, library):
    logits = torch.zeros(4, device=x.device)
    report = waits(lambda: torch.distributions.Categorical(logits=logits))  # the caller
    (finding,) = report.findings
    assert "# the caller" in finding.source.text and "# the caller" in finding.innermost.text
    assert re.search(r"in torch/distributions/distribution\.py:\d+: if not ", str(report))
    (command,) = github(report.findings)
    assert "torch/distributions/distribution.py" in command


def test_a_library_and_pytorch_below_it_are_both_shown(x, library):
    logits = torch.zeros(4, device=x.device)
    printed = str(waits(lambda: library.distribution(logits)))
    lines = [line.strip() for line in printed.splitlines() if line.startswith("    in ")]
    assert [line.split("/")[0] for line in lines] == ["in somebodys_models", "in torch"]


def test_rows_that_look_alike_are_one(x, library, tmp_path, monkeypatch):
    def alike():
        first, second = x.sum().item(), x.sum().item()  # two calls
        library.generate(x), library.chosen(x, x > 0)  # two lines of a library
        return first, second

    report = waits(alike)
    assert len(report.findings) == 4
    rows = [line for line in str(report).splitlines() if "# two" in line]
    assert len(rows) == 3
    assert [row.split()[4] for row in rows if "# two calls" in row] == ["2"]


def test_files_of_one_name_are_told_apart(x, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = []
    for folder in ("first", "second"):
        file = tmp_path / folder / "model.py"
        file.parent.mkdir()
        file.write_text("def step(x):\n    return x.sum().item()\n")
        names: dict = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        steps.append(names["step"])
    printed = str(waits(lambda: [step(x) for step in steps]))
    assert "first/model.py:2: return" in printed and "second/model.py:2: return" in printed


def test_a_warning_of_pytorchs_names_the_users_line(x, monkeypatch):
    def warn():
        return torch.ones(3, 2, 2).T  # the line

    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        waits(warn)
        with debubble.no_host_syncs():
            warn()
    torch.set_warn_always(before)
    line = inspect.getsourcelines(warn)[1] + 1
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)] * 2
