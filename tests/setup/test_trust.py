"""Things by which strangers judge a project, checked offline by the tools that are made for
them."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
SCHEMAS = {
    "vendor.github-workflows": ".github/workflows/*.yml",
    "custom.github-workflows-require-timeout": ".github/workflows/*.yml",
    "vendor.dependabot": ".github/dependabot.yml",
    "vendor.citation-file-format": "CITATION.cff",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
}
SCRIPTS = [
    path
    for path in [
        *(ROOT / "scripts").iterdir(),
        *(ROOT / ".ci").iterdir(),
        *ROOT.glob("workshop/**/*"),
    ]
    if path.is_file() and path.read_bytes()[:20].startswith((b"#!/bin/sh", b"#!/bin/bash"))
]


def tool(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = shutil.which(command[0], path=str(Path(sys.executable).parent)) or shutil.which(
        command[0]
    )
    if path is None:
        pytest.skip(f"{command[0]} is not installed here")
    return subprocess.run(
        [path, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_of_ours_has_the_form_that_its_reader_knows(schema):
    files = [str(path) for path in sorted(ROOT.glob(SCHEMAS[schema]))]
    assert files
    command = pytest.importorskip("check_jsonschema").main
    done = CliRunner().invoke(command, ["--builtin-schema", schema, *files])
    assert done.exit_code == 0, done.output


def test_workflows_hold_no_known_weakness():
    done = tool("zizmor", "--offline", "--no-progress", ".github", ".pre-commit-config.yaml")
    assert done.returncode == 0, done.stdout


def test_what_runs_before_a_commit_is_well_formed():
    done = tool("pre-commit", "validate-config")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_shell_script_does_what_it_seems_to_do(script):
    done = tool("shellcheck", "--severity=info", str(script))
    assert done.returncode == 0, done.stdout


def test_the_image_is_built_as_is_good_practice():
    done = tool("hadolint", "workshop/container/Dockerfile")
    assert done.returncode == 0, done.stdout


def test_what_the_image_copies_is_in_the_checkout():
    text = (ROOT / "workshop/container/Dockerfile").read_text()
    copied = re.findall(r"^COPY --chown=\S+ (.+) \S+$", text, re.MULTILINE)
    named = [name for line in copied for name in line.split()]
    assert "pins" in named and all((ROOT / name).exists() for name in named)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not {"pins", "scripts", "chapters", "katas"} & {*ignored}


def test_a_codespace_builds_the_same_image():
    folder = ROOT / ".devcontainer"
    described = json.loads((folder / "devcontainer.json").read_text())
    build = described["build"]
    image = (folder / build["dockerfile"]).resolve()
    assert image == ROOT / "workshop/container/Dockerfile"
    assert (folder / build["context"]).resolve() == ROOT
    checkout = re.findall(r"^WORKDIR (.+)$", image.read_text(), re.MULTILINE)[-1]
    assert described["containerEnv"]["VENV"] == f"{checkout}/.venv"


def test_binder_installs_what_is_pinned():
    lines = (ROOT / "binder/requirements.txt").read_text().splitlines()
    assert {"-c constraints.txt", "-e .[lab]", "triton"} <= {*lines}


def test_the_values_for_kubernetes_name_this_version_and_this_workspace():
    values = yaml.safe_load((ROOT / "workshop/hub/kubernetes/values.yaml").read_text())
    server = values["singleuser"]
    assert (
        server["image"]["tag"]
        == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    )
    assert server["storage"]["homeMountPath"] == server["extraEnv"]["DEBUBBLE_WORKSPACE"]
    chapter = server["defaultUrl"].removeprefix("/lab/tree/")
    assert (ROOT / chapter).exists()


def test_the_notebook_for_colab_is_one():
    notebook = json.loads((ROOT / "workshop/container/colab.ipynb").read_text())
    nbformat.validate(notebook)


def test_third_party_notices_are_current(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import list_notices

    assert list_notices.check(ROOT) == 0


def test_links_to_elsewhere_are_found_in_pages_and_notebooks(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import ask_links

    (tmp_path / "chapters").mkdir()
    cell = {"source": ["see [this](https://a.example/x)."]}
    (tmp_path / "chapters/00.ipynb").write_text(json.dumps({"cells": [cell]}))
    (tmp_path / "README.md").write_text("[that](https://b.example/y#z) and [here](docs/x.md)")
    assert ask_links.links(tmp_path) == {
        "https://a.example/x": {"chapters/00.ipynb"},
        "https://b.example/y#z": {"README.md"},
    }


@pytest.fixture
def release(tmp_path):
    """Returns (folder, look): a repository with the files that scripts/release reads, ready for
    0.2.0, and a function that runs scripts/release --look there."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/release", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("version: 0.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("## 0.2.0 (2027-01-01)\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(tmp_path)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True, capture_output=True)

    def look(*arguments: str) -> subprocess.CompletedProcess[str]:
        return tool(str(tmp_path / "scripts/release"), *arguments, "--look", cwd=tmp_path)

    return tmp_path, look


def test_a_release_is_possible_where_everything_says_so(release):
    _, look = release
    done = look("0.2.0")
    assert done.stdout == "v0.2.0 could be released.\n", done.stderr


@pytest.mark.parametrize(
    ("version", "file", "text", "said"),
    [
        ("two", None, "", "name a version"),
        ("0.3.0", None, "", "pyproject.toml says another version than 0.3.0"),
        ("0.2.0", "new.txt", "x", "there are changes that are not committed"),
    ],
)
def test_a_release_is_refused_with_its_reason(release, version, file, text, said):
    folder, look = release
    if file:
        (folder / file).write_text(text)
    done = look(version)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_release_is_refused_while_a_placeholder_stands_for_the_repository(release):
    folder, look = release
    (folder / "README.md").write_text("git clone https://github.com/OWNER/debubble\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(folder)]
    for command in (["add", "-A"], ["commit", "-qm", "page"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    done = look("0.2.0")
    assert done.returncode == 1
    assert "github.com/OWNER is no address: write the repository's into README.md" in done.stderr


def test_the_repository_has_one_address_and_the_metadata_names_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    address = project["urls"]["Repository"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["repository-code"] == address
    assert project["authors"] == citation["authors"]
    assert f"git clone {address} && cd debubble" in (ROOT / "README.md").read_text()
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("workshop/**/*.[mi]*")]
    named = {
        found
        for page in pages
        if page.is_file()
        for found in re.findall(r"https://github\.com/[\w.-]+/debubble\b", page.read_text())
    }
    assert named == {address}


WORKFLOWS_FOR_USERS = [
    (page.relative_to(ROOT).as_posix(), block)
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("debubble/**/*.md")]
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    if "uses:" in block
]


@pytest.mark.parametrize(("page", "workflow"), WORKFLOWS_FOR_USERS, ids=lambda text: text[:20])
def test_a_workflow_that_we_give_to_users_is_as_safe_as_ours(page, workflow, tmp_path):
    file = tmp_path / ".github/workflows/given.yml"
    file.parent.mkdir(parents=True)
    file.write_text(workflow)
    command = pytest.importorskip("check_jsonschema").main
    done = CliRunner().invoke(command, ["--builtin-schema", "vendor.github-workflows", str(file)])
    assert done.exit_code == 0, done.output
    found = tool("zizmor", "--offline", "--no-progress", "--persona=pedantic", str(tmp_path))
    severe = re.findall(r"^(?:error|warning)\[.*", found.stdout, re.MULTILINE)
    assert severe == [], found.stdout
    # A fork's pull request has a read-only token, so steps that write must be skipped.
    steps = [step for job in yaml.safe_load(workflow)["jobs"].values() for step in job["steps"]]
    for step in steps:
        if "upload-sarif" in step.get("uses", ""):
            assert "github.event.pull_request.head.repo.fork" in step["if"]


def test_there_is_a_workflow_for_users():
    assert WORKFLOWS_FOR_USERS
