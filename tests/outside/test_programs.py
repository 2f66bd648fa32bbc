"""Programs of others run unchanged under `--as-cuda`, and their waits are named."""

import subprocess

import pytest

from .programs import Program, clone_of, fetch, made, programs, run


@pytest.mark.deep
@pytest.mark.sim
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_program_runs_and_its_waits_are_named(program, tmp_path):
    if not program.is_fetched:
        pytest.skip(f"{program.source} is not here: `python -m tests.outside --fetch` gets it")
    if program.missing:
        pytest.skip(f"{program.name} needs {', '.join(program.missing)}: pip install them")
    ran = run(program, tmp_path / "findings.json")
    assert ran.exit_code == 0, ran.printed
    text = "\n".join(str(finding) for finding in ran.findings)
    assert [line for line in program.waits if line not in text] == [], ran.printed


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


def test_a_program_comes_from_a_folder_of_clones(clone, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.outside.programs.FETCHED", tmp_path / "fetched")
    assert not clone.is_fetched
    fetch(clone, tmp_path / "mirror")
    assert clone.is_fetched
    assert (clone.place / "train.py").read_text() == "print(1)\n"


def test_a_mirror_without_the_clone_is_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match="has no clone of somebody/something"):
        clone_of("somebody/something", tmp_path)


def test_each_program_says_its_commit_and_licence():
    for program in programs():
        assert len(program.commit) == 40 and program.licence, program.name


def test_made_data_is_the_same_each_time():
    assert made("words 3 below 9") == made("words 3 below 9")
    assert len(made("uint16 8 below 3")) == 16
