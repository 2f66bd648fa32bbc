"""`make validate-gpu` without a GPU: the order of its parts, its records, and where it
continues."""

import json
import os
import subprocess
import tarfile
import threading
import time
from importlib import util
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from debubble.assets import slug
from debubble.contract.packages import installed as installed_module
from solutions.measure import benchmark
from tests.validation import __main__ as validation
from tests.validation import parts, record, running, state

ROOT = Path(__file__).parents[2]
FAILS, PASSES, NEVER_ENDS = "import sys; sys.exit(3)", "pass", "import time; time.sleep(600)"


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """Returns a folder with a validation of two parts, "first" and "second"; the first part's
    command fails."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name, code in (("first", FAILS), ("second", PASSES)):
        (folder / f"{name}.py").write_text(code)
    found = [parts.Part(name, "sim", (f"{name}.py",)) for name in ("first", "second")]
    for module in (validation, state):
        monkeypatch.setattr(module, "all_parts", lambda device, gpus, *folders: found)
    for module in (validation, running):
        monkeypatch.setattr(module, "ROOT", folder)
    return folder


def validate(checkout, *more: str) -> tuple[int, dict]:
    """Runs a validation of the checkout on sim, and returns (exit code, record)."""
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
    } == {"first": ("failed", 3), "second": ("passed", 0)}
    for part in recorded["parts"].values():
        assert {"date", "seconds", "commit", "launch_us", "versions"} <= {*part}
    assert sorted(ran(capfd.readouterr().out)) == ["first", "second"]


def test_parts_without_a_result_run_first_and_then_the_oldest(checkout, capfd, monkeypatch):
    """Parts are chosen by their estimates. However slow this machine is, what was chosen runs."""
    monkeypatch.setattr(running, "_is_over", lambda deadline: False)
    monkeypatch.setattr(running, "_until", lambda process, _: (process.communicate()[0], False))

    def order() -> list[str]:
        assert validate(checkout, "--processes", "1", "--minutes", "0.001")
        return ran(capfd.readouterr().out)

    assert order() == ["first"], "only one fits, and one always runs"
    path = checkout / "assets/validation/sim.json"
    known = json.loads(path.read_text())
    known["parts"]["first"] = {"status": "passed", "seconds": 0.1, "date": "2026-01-02"}
    path.write_text(json.dumps(known))
    assert order() == ["second"]
    known["parts"]["second"] = known["parts"]["first"] | {"date": "2026-01-01"}
    path.write_text(json.dumps(known))
    assert order() == ["second"]
    known["parts"]["first"]["date"] = "2025-12-31"
    path.write_text(json.dumps(known))
    assert order() == ["first"]


def test_a_part_that_outlasts_the_time_is_cut_and_goes_first_and_alone_next_time(checkout, capfd):
    (checkout / "second.py").write_text(NEVER_ENDS)
    code, recorded = validate(checkout, "--only", "second", "--minutes", "0.02")
    assert (code, recorded["parts"]["second"]["status"]) == (0, "cut")
    assert record.seconds_of(recorded["parts"]["second"]) > 1.2
    said = capfd.readouterr().out
    assert "second                   cut after" in said
    assert "sim: 0 parts ran" in said and "too short for second: " in said
    (checkout / "second.py").write_text(PASSES)
    validate(checkout, "--processes", "1", "--minutes", "0.02")
    assert ran(capfd.readouterr().out)[0] == "first", "neither has a result: in their own order"


def test_a_part_that_is_cut_keeps_its_last_whole_result(checkout):
    validate(checkout, "--only", "second")
    (checkout / "second.py").write_text(NEVER_ENDS)
    _, recorded = validate(checkout, "--only", "second", "--minutes", "0.02")
    assert recorded["parts"]["second"]["status"] == "passed"
    assert recorded["parts"]["second"]["cut_after"] >= 1.2


def test_what_a_cut_part_started_is_ended_with_it(checkout, monkeypatch):
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', CODE])"
    code = "import os, time; open('new', 'w').write(str(os.getpid())); os.replace('new', 'pid')"
    (checkout / "second.py").write_text(f"CODE = {f'{code}; {NEVER_ENDS}'!r}\n{child}")
    communicate = subprocess.Popen.communicate

    def once_the_child_runs(process, *args, timeout=None):
        while timeout is not None and not (checkout / "pid").exists() and process.poll() is None:
            time.sleep(0.01)
        return communicate(process, *args, timeout=timeout and 0.01)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_the_child_runs)
    validate(checkout, "--only", "second", "--minutes", "10")
    pid = int((checkout / "pid").read_text())
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        while Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            os.kill(pid, 0)
        raise ProcessLookupError


def test_all_that_was_recorded_comes_in_one_file(checkout, tmp_path):
    old = checkout / "assets/benchmarks/older.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    os.utime(old, (1, 1))
    figures = checkout / "assets/benchmarks/sim/new.json"
    (checkout / "second.py").write_text(
        f"import pathlib; p = pathlib.Path({str(figures)!r}); p.parent.mkdir(); p.write_text('1')"
    )
    validate(checkout, "--output", str(tmp_path / "out/all.tar.gz"))
    with tarfile.open(tmp_path / "out/all.tar.gz") as archive:
        assert archive.getnames() == [
            "assets/benchmarks/sim/new.json",
            "assets/validation/sim.json",
        ]


def test_the_record_says_which_commit_it_is_of(checkout):
    _, recorded = validate(checkout, "--commit", "abc", "--only", "second")
    assert recorded["parts"]["second"]["commit"] == "abc"
    assert record.commit_of(checkout.parent) is None
    assert record.commit_of(ROOT) is None or len(record.commit_of(ROOT).rstrip("+")) == 40


def test_who_names_a_part_gets_that_part_alone(checkout, capfd):
    validate(checkout)
    capfd.readouterr()
    validate(checkout, "--only", "second")
    assert ran(capfd.readouterr().out) == ["second"]


def test_a_release_waits_for_parts_that_failed_or_have_no_result(checkout, capsys):
    check = ["--check", "--assets", str(checkout / "assets")]
    assert validation.main(check) == 1
    assert "validated on no GPU: `make validate-gpu`" in capsys.readouterr().out
    (checkout / "first.py").write_text(PASSES)
    validate(checkout, "--only", "second")
    assert validation.main(check) == 1
    assert "sim: 1 of 2 parts passed" in (said := capsys.readouterr().out)
    assert "no result: first" in said
    validate(checkout, "--only", "first")
    assert validation.main(check) == 0


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_minutes_are_a_positive_number(minutes, capsys):
    with pytest.raises(SystemExit):
        validation.main([f"--minutes={minutes}"])
    assert "a positive number of minutes" in capsys.readouterr().err


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

    def pretend(part, *, limited=False, deadline=None):
        with lock:
            running_now[part.name] = part.processes
            most.append(sum(running_now.values()))
            assert limited is not part.measures
            assert len(running_now) == 1 or not part.alone
        if part.name in ("two", "one"):
            begun.wait()  # Both parts run side by side, as intended.
        with lock:
            del running_now[part.name]
            order.append(part.name)
        return {}

    monkeypatch.setattr(running, "run", pretend)
    made = [
        parts.Part("benchmark-one", "sim", (), alone=True),
        parts.Part("one", "sim", (), 1),
        parts.Part("two", "sim", (), 2),
        parts.Part("more than there may be", "sim", (), 9),
    ]
    seconds = {"two": 3.0, "one": 2.0}
    finished = list(running.run_all(made, 3, lambda part: seconds.get(part.name, 1.0)))
    assert [part.name for part, _ in finished][-2:] == ["more than there may be", "benchmark-one"]
    assert set(order[:2]) == {"one", "two"}
    assert max(most[:2]) == 3


@pytest.fixture(scope="module")
def all_of_them(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assets")
    return {part.name: part for part in parts.all_parts("cuda", 1, folder, folder)}


def test_whatever_runs_on_cuda_is_part_of_a_validation(all_of_them):
    """Every folder of tests belongs to a part of the validation, except the folders that use no
    accelerator, or only sim."""
    elsewhere = {"browser", "chapters", "clock", "hub", "kernels", "outside", "progress"}
    elsewhere |= {"setup", "sim", "site", "traces"}
    given = [Path(path) for paths in parts.TESTS.values() for path in paths]
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py"))}
    assert folders - elsewhere == {path.name for path in given if not path.suffix} - elsewhere
    for kind, folder in (("katas", "katas"), ("chapter", "chapters")):
        assert any(name.startswith(f"{kind}-") for name in all_of_them), folder


@pytest.mark.parametrize("name", parts.MEASURED)
def test_a_measurement_runs_alone_and_writes_its_figures_beside_the_others(name, all_of_them):
    part, other = all_of_them[f"benchmark-{name}"], all_of_them["benchmark-engine"]
    assert part.alone and part.measures
    assert util.find_spec(part.arguments[1]) is not None
    figures = other.arguments[other.arguments.index("--output") + 1]
    assert part.arguments[2:] == ("--output", figures)


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


@pytest.mark.deep
def test_figures_that_tests_record_are_in_the_result(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "def test_good(record_property): record_property('microseconds', 3.5)\n"
    )
    result = running.run(parts.Part("one", "sim", parts.pytest(str(tmp_path))))
    assert [*result["figures"].values()] == [{"microseconds": "3.5"}]


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
    result = running.run(parts.Part("three", "sim", parts.pytest(str(tmp_path))))
    assert (result["passed"], result["failed"], result["skipped"]) == (1, 1, 2)
    assert result["failures"][0].endswith("test_bad")
    assert result["skipped_because"] == ["has no moon", "needs the moon"]
    assert result["status"] == "failed"


def test_a_part_that_skips_everything_has_not_passed(tmp_path):
    (tmp_path / "test_none.py").write_text(
        "import pytest\ndef test_elsewhere(): pytest.skip('needs the moon')\n"
    )
    result = running.run(parts.Part("none", "sim", parts.pytest(str(tmp_path))))
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
