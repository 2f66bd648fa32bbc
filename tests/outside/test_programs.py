"""Programs of others run unchanged under `--as-cuda`, and their waits are named."""

import subprocess
from dataclasses import replace

import pytest

from . import inputs, libraries
from .__main__ import measured
from .programs import Program, Run, clone_of, fetch, prepare, programs, run


@pytest.mark.deep
@pytest.mark.sim
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_program_runs_and_its_waits_are_named(program, tmp_path):
    if program.missing:
        pytest.skip(f"{program.name} needs {', '.join(program.missing)}: pip install them")
    if not program.is_fetched:
        pytest.skip(f"{program.source} is not here: `python -m tests.outside --fetch` gets it")
    prepare(program)
    ran = run(program, tmp_path / "findings.json")
    assert ran.exit_code == 0, ran.printed
    assert ran.differs(program) == [], ran.printed


@pytest.fixture
def clone(tmp_path):
    """Returns a mirror with one repository of one commit, and a program in it."""
    folder = tmp_path / "mirror/somebody+something"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", *command], cwd=folder, check=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, text=True, capture_output=True)
    return Program("one", "somebody/something", found.stdout.strip(), "MIT", ["train.py"], [])


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_a_program_comes_from_a_folder_of_clones_or_github(
    clone, is_mirrored, tmp_path, monkeypatch
):
    monkeypatch.setattr("tests.outside.programs.FETCHED", tmp_path / "fetched")
    mirror = tmp_path / "mirror"
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{mirror}/somebody+.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/somebody/")
    assert not clone.is_fetched
    fetch(clone, mirror if is_mirrored else None)
    assert clone.is_fetched
    assert (clone.place / "train.py").read_text() == "print(1)\n"


def test_a_mirror_without_the_clone_is_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match="has no clone of somebody/something"):
        clone_of("somebody/something", tmp_path)


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_an_entry_of_the_manifest_names_what_exists(program):
    assert program.licence and (program.is_package or len(program.commit) == 40)
    assert program.inputs is None or callable(getattr(inputs, program.inputs))
    assert program.script != "libraries.py" or callable(getattr(libraries, program.run[0]))
    assert set(dict(program.on_cpu or {})) <= set(program.run)


def test_a_wait_is_found_at_the_program_s_line_or_inside_a_library():
    found = [{"code": "a()", "inside": [{"code": "b()"}]}, {"code": "c()", "inside": None}]
    report = {"findings": found, "races": [{"first": {"code": "e()"}}]}
    waits, races = ["a()", "b()", "c()", "d()"], ["e()"]
    program = Program("one", "PyPI", "1.0", "MIT", [], waits, races)
    assert Run(0, "", 1.0, report).differs(program) == ["d()"]
    assert Run(0, "", 1.0, report).differs(replace(program, races=[])) == ["d()", "e()"]


def test_random_inputs_are_the_same_each_time_and_differ():
    assert inputs.numbers("a", 9, 100) == inputs.numbers("a", 9, 100)
    assert len({*inputs.numbers("a", 9, 100)}) > 4


def test_the_readme_has_a_row_for_each_program_of_the_manifest_in_its_order():
    assert list(measured()) == [program.name for program in programs()]
