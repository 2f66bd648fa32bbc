"""`make` on a fresh machine, with a Python that only pretends: nothing is downloaded here."""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed here")

ROOT = Path(__file__).parents[2]
OVERRIDES = "share/jupyter/lab/settings/overrides.json"

PRETENDED_PYTHON = """#!/bin/sh
echo "$*" >> '{log}'
case "$*" in
    --version) echo 'Python {version}' ;;
    *version_info*) exit {too_old} ;;
    *ensurepip*) exit {no_venv} ;;
    '-m venv --clear '*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    """As much of the repository as its set-up reads."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    return folder


@pytest.fixture
def pretended_python(tmp_path):
    def make(version: str = "3.13.0", *, too_old: bool = False, no_venv: bool = False) -> Path:
        python = tmp_path / "python3"
        log = tmp_path / "calls.log"
        python.write_text(
            PRETENDED_PYTHON.format(
                log=log, version=version, too_old=int(too_old), no_venv=int(no_venv)
            )
        )
        python.chmod(0o755)
        return python

    return make


def test_an_old_python_is_refused_with_what_is_needed_and_what_was_found(
    checkout, pretended_python
):
    result = make(checkout, "install", pretended_python("3.9.2", too_old=True))
    assert result.returncode != 0
    assert "debubble needs Python 3.11 or newer, and here is Python 3.9.2." in result.stderr
    assert "make lab PYTHON=" in result.stderr
    assert not (checkout / ".venv").exists()


def test_an_interpreter_may_lie_in_a_folder_with_a_space_in_its_name(
    checkout, pretended_python, tmp_path
):
    folder = tmp_path / "my pythons"
    folder.mkdir()
    python = pretended_python().rename(folder / "python3")
    result = make(checkout, "install", python)
    assert result.returncode == 0, result.stderr


def test_an_interpreter_that_does_not_exist_is_named(checkout):
    result = make(checkout, "install", Path("/nowhere/python3"))
    assert result.returncode != 0
    assert "here is no /nowhere/python3" in result.stderr


def test_a_python_without_venv_is_refused_with_the_package_to_install(checkout, pretended_python):
    result = make(checkout, "install", pretended_python(no_venv=True))
    assert result.returncode != 0
    assert "apt install python3-venv" in result.stderr
    assert not (checkout / ".venv").exists()


def test_the_environment_is_pinned_and_jupyterlab_asks_for_no_news(checkout, pretended_python):
    result = make(checkout, "install", pretended_python())
    assert result.returncode == 0, result.stderr
    calls = (checkout.parent / "calls.log").read_text()
    assert "--constraint constraints.txt --editable .[lab,test]" in calls
    settings = json.loads((checkout / ".venv" / OVERRIDES).read_text())
    assert settings["@jupyterlab/apputils-extension:notification"] == {
        "fetchNews": "false",
        "checkForUpdates": False,
    }


def test_the_second_time_installs_nothing(checkout, pretended_python):
    python = pretended_python()
    make(checkout, "install", python)
    calls = (checkout.parent / "calls.log").read_text()
    assert make(checkout, "install", python).returncode == 0
    assert (checkout.parent / "calls.log").read_text() == calls


def test_changed_pins_install_again(checkout, pretended_python):
    python = pretended_python()
    make(checkout, "install", python)
    stamp = (checkout / ".venv/.installed").stat().st_mtime
    os.utime(checkout / "constraints.txt", (stamp + 10, stamp + 10))
    assert "Setting up .venv" in make(checkout, "install", python).stdout


def test_clean_removes_every_cache_that_git_ignores(checkout):
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    caches = [name for name in ignored if name.endswith("_cache") or name == ".hypothesis"]
    assert ".mypy_cache" in caches
    for name in caches:
        (checkout / name).mkdir()
    assert make(checkout, "clean").returncode == 0
    assert [name for name in caches if (checkout / name).exists()] == []


def test_make_alone_names_every_command_of_the_readme(checkout):
    commands = make(checkout).stdout
    for command in ("make lab", "make test", "make validate-gpu"):
        assert command in commands
        assert command in (ROOT / "README.md").read_text()


def test_everything_asked_for_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + extras["lab"] + extras["test"]
    names = {requirement.split(">=")[0].split(";")[0].strip() for requirement in wanted}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert names <= pins.keys()
    assert (pins["torch"], pins["triton"]) == ("2.13.0", "3.7.1")


def make(
    checkout: Path, target: str = "", python: Path | None = None
) -> subprocess.CompletedProcess:
    """Runs `make` as from a terminal of its own, not as part of the `make test` around it."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    outside.pop("PYTHON", None)
    command = ["make", *filter(None, [target]), *([f"PYTHON={python}"] if python else [])]
    return subprocess.run(
        command, cwd=checkout, env=outside, capture_output=True, text=True, check=False
    )
