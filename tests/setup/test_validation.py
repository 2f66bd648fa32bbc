"""`make validate-gpu` without a GPU: what it records, what it keeps, and when that is stale."""

import contextlib
import json
import shutil
import threading
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from debubble.assets import slug
from debubble.contract import installed as installed_module
from solutions.measure import benchmark
from tests.validation import __main__ as validation
from tests.validation import parts, record, running, state
from tests.validation.sources import SourceTree

ROOT = Path(__file__).parents[2]
FAILS, PASSES = "import sys; sys.exit(3)", "pass"


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """A checkout of two parts, which rest on a file each; the first one's command fails."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name, code in (("first", FAILS), ("second", PASSES)):
        (folder / f"{name}.py").write_text(code)
    found = [
        parts.Part(name, "sim", (f"{name}.py",), (f"{name}.py",)) for name in ("first", "second")
    ]
    for module in (validation, state):
        monkeypatch.setattr(module, "all_parts", lambda device, gpus, *folders: found)
    for module in (validation, running):
        monkeypatch.setattr(module, "ROOT", folder)
    return folder


def validate(checkout, *more: str) -> tuple[int, dict]:
    """The exit code, and the record."""
    assets = checkout / "assets"
    code = validation.main(["--device", "sim", "--assets", str(assets), *more])
    return code, json.loads((assets / "validation/sim.json").read_text())


def ran(printed: str) -> list[str]:
    return [line.split()[1].rstrip(":") for line in printed.splitlines() if ": python " in line]


def test_a_failing_part_is_recorded_and_the_others_still_run(checkout, capfd):
    code, recorded = validate(checkout)
    assert code == 1
    assert {
        name: (part["status"], part["exit_code"]) for name, part in recorded["parts"].items()
    } == {
        "first": ("failed", 3),
        "second": ("passed", 0),
    }
    assert not recorded["finished"]
    of_second = recorded["parts"]["second"]
    assert len(of_second["source_sha256"]) == 64
    assert of_second["versions"]["torch"] == torch.__version__
    assert of_second["date"].startswith("20")
    assert "first failed" in " ".join(capfd.readouterr().out.split())


def test_it_is_finished_once_every_part_has_passed(checkout):
    validate(checkout, "--only", "second")
    (checkout / "first.py").write_text(PASSES)
    code, recorded = validate(checkout)
    assert code == 0
    assert recorded["finished"]


def test_what_passed_is_not_run_again_until_its_source_changes(checkout, capfd):
    validate(checkout)
    capfd.readouterr()
    validate(checkout)
    assert ran(capfd.readouterr().out) == ["first"]
    (checkout / "second.py").write_text("1 + 1")
    validate(checkout)
    assert sorted(ran(capfd.readouterr().out)) == ["first", "second"]
    validate(checkout, "--all")
    assert sorted(ran(capfd.readouterr().out)) == ["first", "second"]


def test_who_names_a_part_gets_that_part_alone_current_or_not(checkout, capfd):
    validate(checkout)
    capfd.readouterr()
    validate(checkout, "--only", "second", "--all")
    assert ran(capfd.readouterr().out) == ["second"]


def test_what_passed_with_other_versions_is_run_again(checkout, capfd, monkeypatch):
    validate(checkout)
    capfd.readouterr()
    others = record.versions("sim") | {"torch": "9.9"}
    monkeypatch.setattr(validation, "versions", lambda device: others)
    _, recorded = validate(checkout)
    assert "second" in ran(capfd.readouterr().out)
    assert recorded["parts"]["second"]["versions"]["torch"] == "9.9"


def test_parts_that_run_one_at_a_time_come_together_in_one_record(checkout):
    code, recorded = validate(checkout, "--only", "second")
    assert (code, list(recorded["parts"]), recorded["finished"]) == (0, ["second"], False)
    _, recorded = validate(checkout, "--skip", "second")
    assert set(recorded["parts"]) == {"first", "second"}


def test_a_result_stays_when_its_source_changes_and_is_called_stale(checkout, capsys):
    (checkout / "first.py").write_text(PASSES)
    validate(checkout)
    assert validation.main(["--check", "--assets", str(checkout / "assets")]) == 0
    (checkout / "second.py").write_text("1 + 1")
    capsys.readouterr()
    assert validation.main(["--state", "--assets", str(checkout / "assets")]) == 0
    assert "validated on sim: 1 of 2 parts hold\n    stale: second\n" in capsys.readouterr().out
    assert validation.main(["--check", "--assets", str(checkout / "assets")]) == 1


def test_what_is_stale_as_a_whole_is_not_listed_part_by_part(checkout, capsys):
    validate(checkout)
    for name in ("first.py", "second.py"):
        (checkout / name).write_text("1 + 1")
    validation.main(["--state", "--assets", str(checkout / "assets")])
    assert "0 of 2 parts hold\n    stale: all 2\n" in capsys.readouterr().out


def test_a_benchmark_may_leave_the_recorded_figures_be(checkout, monkeypatch):
    folders, often = [], []

    def measuring(device, gpus, figures, timelines, runs):
        folders.append(figures)
        often.append(runs)
        return [parts.Part("benchmark-one", "sim", ("second.py",), ("second.py",), alone=True)]

    monkeypatch.setattr(validation, "all_parts", measuring)
    for option, words in (("--all", "written"), ("--keep-figures", "kept as they were")):
        _, recorded = validate(checkout, "--only", "benchmark-one", option)
        assert recorded["parts"]["benchmark-one"]["figures"] == words
    written, thrown_away = folders
    assert written == checkout / "assets/benchmarks/sim"
    assert not thrown_away.is_relative_to(checkout)
    assert often == [None, 1]


def test_figures_that_were_left_be_hold_up_a_release_until_they_are_measured(
    checkout, monkeypatch, capfd
):
    found = [parts.Part("benchmark-one", "sim", ("second.py",), ("second.py",), alone=True)]
    for module in (validation, state):
        monkeypatch.setattr(module, "all_parts", lambda device, gpus, *folders: found)
    code, recorded = validate(checkout, "--keep-figures")
    assert (code, recorded["finished"]) == (0, True)
    check = ["--check", "--assets", str(checkout / "assets")]
    capfd.readouterr()
    assert validation.main(check) == 1
    said = capfd.readouterr().out
    assert "1 of 1 parts hold\n    figures kept from an earlier run: benchmark-one\n" in said
    validate(checkout, "--keep-figures")
    assert ran(capfd.readouterr().out) == []
    _, recorded = validate(checkout)
    assert ran(capfd.readouterr().out) == ["benchmark-one"]
    assert recorded["parts"]["benchmark-one"]["figures"] == "written"
    assert validation.main(check) == 0


def test_where_others_use_the_gpu_its_memory_is_not_watched(checkout, monkeypatch):
    """What they take would be told as ours."""

    @contextlib.contextmanager
    def watched(device):
        yield SimpleNamespace(peak_gib=67.0)

    monkeypatch.setattr(validation, "watched_memory", watched)
    for option, peak in (("--all", 67.0), ("--keep-figures", None)):
        _, recorded = validate(checkout, "--only", "first", option)
        assert recorded["parts"]["first"]["peak_gpu_gib"] == peak


def test_without_a_record_nothing_is_validated(checkout, capsys):
    assert validation.main(["--check", "--assets", str(checkout / "nowhere")]) == 1
    assert "validated on no GPU: `make validate-gpu`" in capsys.readouterr().out


def test_an_unknown_part_is_refused_with_the_names_there_are(checkout):
    with pytest.raises(SystemExit, match="no part is called 'third'; there are first, second"):
        validate(checkout, "--only", "third")
    assert not (checkout / "assets").exists()


def test_cuda_is_refused_where_there_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert validation.main(["--assets", str(tmp_path)]) == 2
    assert "No CUDA GPU here" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_at_most_so_many_processes_use_the_device_and_what_measures_is_alone(monkeypatch):
    running_now, most, order, lock = {}, [], [], threading.Lock()
    begun = threading.Barrier(2, timeout=60)

    def pretend(part, *, limited=False):
        with lock:
            running_now[part.name] = part.processes
            most.append(sum(running_now.values()))
            assert limited is not part.measures
            assert len(running_now) == 1 or not part.alone
        if part.name in ("two", "one"):
            begun.wait()  # The two that are meant to run side by side do so.
        with lock:
            del running_now[part.name]
            order.append(part.name)
        return {}

    monkeypatch.setattr(running, "run", pretend)
    made = [
        parts.Part("benchmark-one", "sim", (), (), alone=True),
        parts.Part("one", "sim", (), (), 1),
        parts.Part("two", "sim", (), (), 2),
        parts.Part("more than there may be", "sim", (), (), 9),
    ]
    seconds = {"two": 3.0, "one": 2.0}
    finished = list(running.run_all(made, 3, lambda part: seconds.get(part.name, 1.0)))
    assert [part.name for part, _ in finished][-2:] == ["more than there may be", "benchmark-one"]
    assert set(order[:2]) == {"one", "two"}
    assert max(most[:2]) == 3


@pytest.fixture(scope="module")
def whole():
    return SourceTree(ROOT)


@pytest.fixture(scope="module")
def all_of_them(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assets")
    return {part.name: part for part in parts.all_parts("cuda", 1, folder, folder)}


@pytest.mark.parametrize(
    ("changed", "stale", "current"),
    [
        (
            "solutions/offload/handler.py",
            {"tests-offload", "katas-offload", "chapter-05_offload", "benchmark-offload"}
            | {"tests-engine", "katas-engine", "chapter-06_engine", "benchmark-engine"},
            {"tests-gdn", "katas-gdn", "chapter-03_gdn", "benchmark-gdn", "tests-truth"},
        ),
        (
            "solutions/offload/choice/crossovers/nvidia-h200.json",
            {"tests-offload", "chapter-05_offload", "benchmark-engine"},
            {"tests-gdn", "chapter-03_gdn"},
        ),
        ("tests/gdn/oracle.py", {"tests-gdn"}, {"katas-gdn", "chapter-03_gdn", "tests-offload"}),
        ("katas/gdn/test_chunk_indices.py", {"katas-gdn"}, {"katas-engine", "tests-gdn"}),
        ("katas/gdn/chunk_indices.py", set(), {"katas-gdn", "tests-gdn", "chapter-03_gdn"}),
        ("assets/effects/nvidia-h200.json", {"tests-truth"}, {"tests-gdn", "tests-accelerators"}),
        ("tests/engine/test_modelled_time.py", set(), {"tests-engine", "katas-engine"}),
    ],
    ids=["a handler", "its data", "an oracle", "a kata", "its stub", "what was measured", "sim's"],
)
def test_what_rests_on_a_file_is_stale_when_it_changes(whole, all_of_them, changed, stale, current):
    path = ROOT / changed
    assert path.exists()
    resting = {
        name
        for name, part in all_of_them.items()
        if path in whole.files_behind(part.rests_on, part.leaves_out)
    }
    assert stale <= resting
    assert not current & resting


def test_whatever_runs_on_cuda_is_part_of_a_validation(all_of_them):
    """Each of our folders of tests, but those that look at no accelerator, or at sim alone."""
    elsewhere = {"browser", "chapters", "hub", "kernels", "mutants", "setup", "sim", "site"}
    elsewhere.add("snapshot")
    given = [Path(path) for paths in parts.TESTS.values() for path in paths]
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py"))}
    assert folders - elsewhere == {path.name for path in given if not path.suffix} - elsewhere
    for kind, folder in (("katas", "katas"), ("chapter", "chapters")):
        assert any(name.startswith(f"{kind}-") for name in all_of_them), folder
    assert all((ROOT / entry).exists() for part in all_of_them.values() for entry in part.rests_on)


def test_without_xdist_a_part_runs_in_one_process(monkeypatch):
    beside = parts.tests("gdn", "sim")
    assert beside.processes > 1 and "-n" in beside.arguments
    monkeypatch.setattr(parts, "find_spec", lambda name: None)
    alone = parts.tests("gdn", "sim")
    assert alone.processes == 1
    assert not {"-n", "--dist=loadfile", "--timeout=300"} & {*alone.arguments}


def test_several_gpus_are_there_for_the_ranks_alone(tmp_path):
    (ranks,) = parts.all_parts("cuda", 2, tmp_path, tmp_path)
    assert ranks.name == "ranks"


@pytest.fixture
def small_tree(tmp_path):
    for name, source in {
        "debubble/__init__.py": "",
        "debubble/clock.py": "from . import hands\n",
        "debubble/hands.py": "def lazily():\n    import debubble.dial\n",
        "debubble/dial.py": "tick = 1\n",
        "debubble/faces.json": "[1]",
        "debubble/unused.py": "tick = 1\n",
        "tests/conftest.py": "",
        "tests/test_clock.py": "import debubble.clock\n",
        "tests/README.md": "prose",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    return tmp_path


def test_a_part_rests_on_all_that_is_imported_from_it(small_tree):
    behind = SourceTree(small_tree).files_behind(["tests/test_clock.py"])
    assert [path.relative_to(small_tree).as_posix() for path in behind] == [
        "debubble/__init__.py",
        "debubble/clock.py",
        "debubble/dial.py",
        "debubble/faces.json",
        "debubble/hands.py",
        "tests/conftest.py",
        "tests/test_clock.py",
    ]


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ("debubble/dial.py", True),
        ("debubble/faces.json", True),
        ("debubble/unused.py", False),
        ("debubble/__pycache__/dial.pyc", False),
        ("tests/README.md", False),
    ],
)
def test_the_hash_changes_with_the_source_and_only_with_it(small_tree, changed, differs):
    entries = ["tests/test_clock.py"]
    before = SourceTree(small_tree).hash_of(entries)
    (small_tree / changed).parent.mkdir(exist_ok=True)
    (small_tree / changed).write_text("tick = 2\n")
    assert (SourceTree(small_tree).hash_of(entries) != before) is differs


@pytest.mark.parametrize(
    ("pytestmark", "differs"),
    [
        ("pytestmark = pytest.mark.sim", False),
        ("pytestmark = [pytest.mark.sim, pytest.mark.timeout(9)]", False),
        ("pytestmark = pytest.mark.timeout(9)", True),
        ("@pytest.mark.sim\ndef test_one(): ...", True),
    ],
)
def test_tests_that_a_device_leaves_out_are_no_part_of_the_source(small_tree, pytestmark, differs):
    def hash_with(end: str) -> str:
        text = f"import pytest\n{pytestmark}\ndef test_two(): {end}\n"
        (small_tree / "tests/test_hands.py").write_text(text)
        return SourceTree(small_tree).hash_of(["tests"], ["browser", "sim"])

    assert (hash_with("...") != hash_with("pass")) is differs


def test_a_checkout_in_a_hidden_folder_is_hashed_like_any_other(small_tree, tmp_path):
    entries = ["debubble", "tests"]
    hidden = tmp_path / ".work" / "clone"
    shutil.copytree(small_tree, hidden, ignore=shutil.ignore_patterns(".work"))
    assert SourceTree(hidden).files_behind(entries)
    assert SourceTree(hidden).hash_of(entries) == SourceTree(small_tree).hash_of(entries)


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"execution_count": 2}, False),
        ({"outputs": [{"output_type": "stream", "name": "stdout", "text": "2"}]}, False),
        ({"cell_type": "markdown"}, True),
        ({"source": "1 + 2"}, True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_a_notebook_stored_is_no_part_of_its_source(small_tree, changed, differs):
    cell = {"cell_type": "code", "source": "1 + 1", "execution_count": 1, "outputs": []}
    before, after = (hash_of_notebook(small_tree, [each]) for each in (cell, cell | changed))
    assert (before != after) is differs


def test_what_a_notebook_says_between_its_code_is_no_part_of_its_source(small_tree):
    code = {"cell_type": "code", "source": "1 + 1", "outputs": []}
    before, after = (
        hash_of_notebook(small_tree, [{"cell_type": "markdown", "source": said}, code])
        for said in ("One and one.", "One, and another one.")
    )
    assert before == after


def hash_of_notebook(tree, cells):
    (tree / "00.ipynb").write_text(json.dumps({"cells": cells}))
    return SourceTree(tree).hash_of(["00.ipynb"])


def test_a_notebook_rests_on_what_its_cells_import(small_tree):
    cell = {"cell_type": "code", "source": ["import debubble.dial\n"]}
    (small_tree / "00.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert small_tree / "debubble/dial.py" in SourceTree(small_tree).files_behind(["00.ipynb"])


@pytest.mark.deep
def test_tests_are_counted_with_the_reasons_of_the_skipped(tmp_path):
    (tmp_path / "test_three.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "def test_elsewhere(): pytest.skip('needs the moon')\n"
    )
    (tmp_path / "test_whole_module.py").write_text(
        "import pytest\npytest.importorskip('a_moon', reason='has no moon')\n"
    )
    result = running.run(parts.Part("three", "sim", parts.pytest(str(tmp_path)), ()))
    assert (result["passed"], result["failed"], result["skipped"]) == (1, 1, 2)
    assert result["failures"][0].endswith("test_bad")
    assert result["skipped_because"] == ["has no moon", "needs the moon"]
    assert result["status"] == "failed"


def test_a_part_that_skips_everything_has_not_passed(tmp_path):
    (tmp_path / "test_none.py").write_text(
        "import pytest\ndef test_elsewhere(): pytest.skip('needs the moon')\n"
    )
    result = running.run(parts.Part("none", "sim", parts.pytest(str(tmp_path)), ()))
    assert (result["exit_code"], result["status"]) == (0, "failed")


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("Tesla T4", "tesla-t4"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
    ],
)
def test_files_are_named_after_the_gpu(gpu, name):
    assert slug(gpu) == name


def test_versions_are_recorded_of_a_triton_that_was_built_under_another_name(monkeypatch):
    def named_otherwise(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(installed_module, "version", named_otherwise)
    assert benchmark.versions()["triton"] is None
    assert record.versions("sim")["triton"] is None


def test_a_record_replaces_the_old_one_in_one_step(tmp_path):
    path = tmp_path / "validation/sim.json"
    record.write({"finished": False, "parts": {}}, path)
    record.write({"finished": True, "parts": {}}, path)
    assert record.read(path) == {"finished": True, "parts": {}}
    assert list(path.parent.iterdir()) == [path]


def test_the_memory_of_a_gpu_is_watched_and_where_nobody_knows_it_is_not(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nfor used in 1024 9216 2048; do echo $used; done\nsleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setattr(running.MemoryWatch, "QUERY", (str(tool),))
    with running.watched_memory("cuda") as memory:
        while len(memory._seen) < 3:
            pass
    assert memory.peak_gib == 8.0
    monkeypatch.setattr(running.MemoryWatch, "QUERY", (str(tmp_path / "nothing"),))
    with running.watched_memory("cuda") as memory:
        assert memory.peak_gib is None
