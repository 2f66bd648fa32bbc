"""`make` on a fresh machine, with a pretended uv: nothing is downloaded."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from .pretended import ROOT, Pretended

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed here")

PINS = dict(
    line.split(";")[0].strip().split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line[:1] != "#"
)
"""The versions of constraints.txt, by package."""
OVERRIDES = "share/jupyter/lab/settings/overrides.json"
PRETENDED_PYTHON = """#!/bin/sh
case "$*" in
    --version) echo 'Python 3.9.2' ;;
    *version_info*) exit 1 ;;
esac
"""


@pytest.fixture
def pretended(tmp_path):
    return Pretended(tmp_path / "checkout", sys.executable)


def test_an_old_python_is_refused_with_what_is_needed_and_what_was_found(pretended, tmp_path):
    python = tmp_path / "python3"
    python.write_text(PRETENDED_PYTHON)
    python.chmod(0o755)
    result = pretended.make(PYTHON=str(python))
    assert result.returncode != 0
    assert "debubble needs Python 3.11 or newer, and here is Python 3.9.2." in result.stderr
    assert "make lab PYTHON=" in result.stderr
    assert not (pretended.folder / ".venv").exists()


def test_an_interpreter_that_does_not_exist_is_named(pretended):
    result = pretended.make(PYTHON="/nowhere/python3")
    assert result.returncode != 0
    assert "here is no /nowhere/python3" in result.stderr


PYTHON_ELSEWHERE = """#!/bin/sh
test "$1" = -c || exec echo "chosen: $0"
exec {real} -c 'import sys; sys.executable = "{path}"; exec(sys.argv.pop(1))' "$2" "$3"
"""


def test_whoever_makes_an_environment_for_all_gets_a_python_that_all_can_run(tmp_path):
    """An environment for all users is made with a Python that every user can run: the python3 of
    root may lie in root's home, which other users can't enter."""
    for name, path in (("python3", tmp_path / "python3"), ("python3.12", "/bin/sh")):
        text = PYTHON_ELSEWHERE.format(real=sys.executable, path=path)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    tmp_path.chmod(0o700)

    def chosen(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ROOT / "scripts/make-environment", *arguments],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"} | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    assert chosen().stdout == f"chosen: {tmp_path}/python3\n"
    assert chosen("--base-only").stdout == f"chosen: {tmp_path}/python3.12\n"
    refused = chosen("--base-only", PYTHON=f"{tmp_path}/python3")
    assert "Python 3.11 or newer that every user can run" in refused.stderr


def test_what_comes_is_said_before_it_comes_and_without_a_terminal_too(pretended):
    said = pretended.make().stdout
    assert "for the CPU, since" in said or "for CUDA, since" in said
    assert "It downloads about" in said and "of disk" in said


def test_only_what_the_lab_needs_is_installed_with_hashes_and_nothing_else(pretended):
    result = pretended.make(TORCH="cpu")
    assert result.returncode == 0, result.stderr
    (torch, rest) = [call for call in pretended.calls if call.startswith("uv pip install")]
    assert f"--default-index file://{pretended.folder.parent}" in torch
    assert torch.endswith(f"torch=={PINS['torch']}")
    assert "--require-hashes --no-deps" in rest and rest.endswith("-lab.txt")


def test_torch_comes_from_the_configured_index_where_the_one_for_the_cpu_is_silent(pretended):
    nowhere = f"file://{pretended.folder}/nowhere"
    configured = "https://mirror.example/simple"
    result = pretended.make(TORCH="cpu", DEBUBBLE_CPU_INDEX=nowhere, PIP_INDEX_URL=configured)
    assert f"{nowhere} can't be reached" in result.stdout
    (torch, rest) = [call for call in pretended.calls if call.startswith("uv pip install")]
    assert f"--default-index {configured}" in torch
    assert f"--default-index {configured}" in rest
    assert "--no-deps" not in torch  # PyPI's torch needs NVIDIA's libraries beside it.


@pytest.mark.parametrize("quiet", ["", "1"])
def test_bytecode_is_written_at_once_only_where_a_user_could_not_write_it(
    pretended, tmp_path, quiet
):
    """Bytecode is compiled at installation only in a shared environment. In a user's own
    environment it would break the hard links, so each checkout would take 200 MB and half a
    minute."""
    command = [pretended.folder / "scripts/make-environment"]
    around = pretended.around() | ({"PYTHONDONTWRITEBYTECODE": quiet} if quiet else {})
    for venv, compiled in (("", False), (str(tmp_path / "shared"), True)):
        pretended.log.unlink(missing_ok=True)
        subprocess.run(command, env=around | {"VENV": venv}, check=True, capture_output=True)
        installs = [call for call in pretended.calls if call.startswith("uv pip install")]
        assert installs and {"--compile-bytecode" in call for call in installs} == {compiled}
        shutil.rmtree(pretended.folder / ".venv")


def test_cudas_torch_is_held_to_its_hashes(pretended):
    pretended.make(TORCH="cuda")
    (call,) = [call for call in pretended.calls if call.startswith("uv pip install")]
    assert "--require-hashes" in call


def test_an_unknown_kind_of_torch_is_refused(pretended):
    assert (
        "TORCH=gpu is unknown: write TORCH=cpu or TORCH=cuda" in pretended.make(TORCH="gpu").stderr
    )


def test_jupyterlab_asks_for_no_news(pretended):
    pretended.make()
    settings = json.loads((pretended.folder / ".venv" / OVERRIDES).read_text())
    assert settings["@jupyterlab/apputils-extension:notification"] == {
        "fetchNews": "false",
        "checkForUpdates": False,
    }


def test_the_second_time_installs_nothing(pretended):
    pretended.make()
    calls = pretended.calls
    assert pretended.make().returncode == 0
    assert pretended.calls == calls


def test_changed_pins_install_again(pretended):
    pretended.make()
    calls = len(pretended.calls)
    with (pretended.folder / "pins/lab.txt").open("a") as file:
        file.write("# changed\n")
    assert "Setting up" in pretended.make().stdout
    assert len(pretended.calls) > calls


def test_what_the_tests_need_is_added_when_it_is_asked_for(pretended):
    pretended.make("install")
    assert not any(call.endswith("-test.txt") for call in pretended.calls)
    pretended.make("install-test")
    assert any(call.endswith("-test.txt") for call in pretended.calls)
    calls = pretended.calls
    pretended.make("install")
    assert pretended.calls == calls


def test_a_set_up_that_failed_is_begun_again(tmp_path):
    pretended = Pretended(
        tmp_path / "checkout", sys.executable, installs="echo no room >&2; exit 2"
    )
    failed = pretended.make()
    assert failed.returncode != 0
    assert "no room" in failed.stdout
    assert "could not do it, and says why above" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "Setting up" in pretended.make().stdout


def test_an_activated_environment_that_is_removed_does_not_make_the_next_one(tmp_path):
    pretended = Pretended(tmp_path / "checkout", sys.executable, installs="exit 2")
    pretended.make()
    activated = f"{pretended.folder / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
    pretended.make(PATH=activated)
    made = [call for call in pretended.calls if call.startswith("uv venv ")]
    asked = [call.split("--python ")[1].split()[0] for call in made]
    assert len(asked) == 2 and not [one for one in asked if ".venv" in one]


@pytest.mark.parametrize("name", ["it's a folder", 'with "quotes" and $HOME', "ümlaut and  spaces"])
def test_the_checkout_may_lie_in_any_folder(tmp_path, name):
    pretended = Pretended(tmp_path / name / "checkout", sys.executable)
    result = pretended.make()
    assert result.returncode == 0, result.stderr
    command = pretended.folder / ".venv/bin/debubble"
    assert runs(command).stdout == b"hello\n"
    assert runs(command, LC_ALL="C").stdout == b"hello\n"
    in_it = subprocess.run(
        [
            pretended.folder / "scripts/in-environment",
            "python",
            "-c",
            "import sys; print(sys.prefix)",
        ],
        env=pretended.around(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert in_it.stdout.strip() == str(pretended.folder / ".venv")


def test_one_environment_serves_many_checkouts_and_each_sees_its_own_code(tmp_path):
    shared = tmp_path / "shared environmént"
    for name in ("one", "two"):
        pretended = Pretended(tmp_path / name / "checkout", sys.executable, says=f"this is {name}")
        assert pretended.make(VENV=str(shared)).returncode == 0
        assert pretended.make().returncode == 0  # The environment remembers where its packages lie.
        said = runs(pretended.folder / ".venv/bin/debubble", LC_ALL="C").stdout
        assert said == f"this is {name}\n".encode()
    assert len([call for call in pretended.calls if "venv" in call.split()]) == 0
    front = sum(path.lstat().st_size for path in (tmp_path / "two/checkout/.venv").rglob("*"))
    assert front < 1_000_000


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(pretended, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("ten years")
    result = pretended.make(VENV=str(other))
    assert f"{other} is no environment, and holds 'thesis.txt'" in result.stderr
    assert (other / "thesis.txt").read_text() == "ten years"


def test_an_environment_that_was_moved_is_made_anew(pretended, tmp_path):
    pretended.make()
    moved = tmp_path / "moved"
    pretended.folder.rename(moved)
    pretended.folder = moved
    assert "Setting up" in pretended.make().stdout
    assert runs(moved / ".venv/bin/debubble").stdout == b"hello\n"


def test_uv_is_brought_with_its_hashes(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "scripts/environment")
    import installer

    calls = []

    def run(command, **about):
        calls.append([str(word) for word in command])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(installer.subprocess, "run", run)
    assert installer.bring_uv(tmp_path)
    assert calls[-1][-3:] == ["--require-hashes", "-r", str(ROOT / "pins/uv.txt")]


def test_an_empty_wheelhouse_is_refused(pretended, tmp_path):
    (tmp_path / "empty").mkdir()
    result = pretended.make(WHEELS=str(tmp_path / "empty"))
    assert "holds no wheels: `make wheelhouse` fills such a folder" in result.stderr


def test_a_wheelhouse_is_all_that_is_asked(pretended, tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a-1-py3-none-any.whl").touch()
    pretended.make(WHEELS=str(tmp_path / "wheels"), TORCH="cpu")
    installs = [call for call in pretended.calls if call.startswith("uv pip install")]
    assert installs and all("--no-index --find-links" in call for call in installs)


def test_pips_settings_are_said_to_uv(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "scripts/environment")
    import indexes

    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://a.example/simple\nextra-index-url =\n  https://b.example\n"
        "[install]\ntrusted-host = a.example b.example\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_CERT", "/etc/ssl/company.pem")
    options, environment = indexes.for_uv({"cert": "/etc/ssl/company.pem"} | indexes.pip_settings())
    said = " ".join(options)
    assert "--default-index https://a.example/simple" in said
    assert "--index https://b.example" in said and "unsafe-best-match" in said
    assert said.count("--allow-insecure-host") == 2
    assert environment == {"SSL_CERT_FILE": "/etc/ssl/company.pem"}


def test_clean_removes_every_cache_that_git_ignores(pretended):
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    caches = [name for name in ignored if name.endswith("_cache") or name == ".hypothesis"]
    assert ".mypy_cache" in caches
    for name in caches:
        (pretended.folder / name).mkdir()
    assert pretended.make("clean").returncode == 0
    assert [name for name in caches if (pretended.folder / name).exists()] == []


def test_make_alone_names_every_command_of_the_readme(pretended):
    commands = pretended.make("").stdout
    told = "".join((ROOT / name).read_text() for name in ("README.md", "docs/results.md"))
    for command in ("make lab", "make test", "make validate-gpu"):
        assert command in commands
        assert command in told


def test_everything_asked_for_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(line for extra in extras for line in extra)]
    names = {Requirement(line).name for line in asked} - {"debubble", "cuda-bindings"}
    assert names <= PINS.keys()


def test_pins_are_what_the_constraints_say_and_have_hashes(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import renew_pins

    assert renew_pins.faults(ROOT) == []
    for name in ("pins", "constraints.txt"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    constraints = tmp_path / "constraints.txt"
    pinned = f"torch=={PINS['torch']}"
    constraints.write_text(constraints.read_text().replace(pinned, "torch==99.0"))
    said = renew_pins.faults(tmp_path)
    assert f"pins/lab.txt: {pinned} is not what constraints.txt says" in said
    assert "constraints.txt: torch==99.0 is in no file of pins/" in said
    (tmp_path / "pins/uv.txt").write_text("uv==0.13.9\n")
    assert "pins/uv.txt has no hash" in renew_pins.faults(tmp_path)


IN_A_USERS_ENVIRONMENT = ("torch", "gpu", "lab", "models", "hub")


def test_no_metadata_makes_pip_change_a_torch_that_is_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    base = {Requirement(line).name for line in project["dependencies"]}
    assert base == {"numpy", "rich", "typer"}
    for extra in IN_A_USERS_ENVIRONMENT:
        asked = [Requirement(line) for line in extras[extra]]
        assert [str(one) for one in asked if one.name == "triton"] == []
        assert {str(one.specifier) for one in asked if one.name == "torch"} <= {""}
        upper = [str(one) for one in asked if re.search("<|==|~=", str(one.specifier))]
        assert upper == []
    assert extras["torch"] == ["torch"]


def test_the_lab_has_what_a_notebook_is_checked_with(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts/environment")
    import requirements

    names = {pin.name for pin in requirements.pins(ROOT, "lab")}
    assert {"pytest", "nbval", "torch", "triton"} <= names
    assert "--nbval" in (ROOT / "CONTRIBUTING.md").read_text()


def runs(command: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    around = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    around |= variables
    return subprocess.run([command, "--version"], env=around, capture_output=True, check=False)
