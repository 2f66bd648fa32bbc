"""`debubble new-kata NAME --system SYSTEM`: writes all files of a new kata.

They are those of the catalogue's first kata under the new kata's names. So all claims about the new
kata hold at once, and its author changes it from there.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from debubble.exercises.kata_files.catalogue import Catalogue, Kata, Target, find_catalogue, way_out
from debubble.exercises.kata_files.stubs.files import StubFiles, write_whole
from debubble.exercises.kata_files.stubs.generate import head
from debubble.exercises.kata_files.stubs.helpers import needs_of
from debubble.exercises.kata_files.stubs.source import source_module

from .refusal import refuse, refusing

TABLE = "[[kata]]\n"
LISTS = "scripts/list_chapters.py"
FOLDERS = {"katas": "What only exercises need.", "katas/before": "What it was before."}
"""The folders of a system's `solutions` for a new kata, each with the docstring of its package."""


def new_kata(name: str, system: str) -> None:
    """Writes the files, the stub and the lists of katas. Refuses a name or system that can't be
    used, and then writes nothing."""
    with refusing():
        catalogue = find_catalogue()
        _refuse_unusable(catalogue, name, system)
        files = _files(catalogue, name, system)
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())
        catalogue = Catalogue(catalogue.root)
        written = StubFiles(catalogue).write_all()
    if (catalogue.root / LISTS).is_file():
        subprocess.run([sys.executable, LISTS], cwd=catalogue.root, check=True)
    for path in [*files, *written]:
        typer.echo(f"wrote {path.relative_to(catalogue.root)}")
    kata = catalogue.kata(name)
    typer.echo(
        f"\n{name} is an example so far: change these files and its entry in katas.toml. Then run\n"
        f"\n  debubble check --write-stubs\n"
        f"  pytest {kata.relative(kata.test_path)} --impl solutions\n"
        f"  debubble check {name}"
    )


def _refuse_unusable(catalogue: Catalogue, name: str, system: str) -> None:
    is_ours = name.startswith("test_") or name == "given" or keyword.iskeyword(name)
    if is_ours or not name.isidentifier():
        refuse(f"{name!r} can't be a kata's name: write a Python identifier, such as last_index")
    if name in {kata.name for kata in catalogue.katas}:
        refuse(f"there is a kata {name!r} already: choose another name")
    systems = [*dict.fromkeys(kata.system for kata in catalogue.katas)]
    if system not in systems:
        refuse(f"there is no system {system!r}: {way_out(system, systems)}")


def _files(catalogue: Catalogue, name: str, system: str) -> dict[Path, str]:
    """Returns the text of each file, among them the whole katas.toml with the new entry. Refuses a
    name if one of its files exists."""
    example, root = catalogue.katas[0], catalogue.root
    copies = {path: _renamed(text, example, name) for path, text in _copies(example, name, system)}
    for path in [*copies, root / "katas" / system / f"{name}.py"]:
        if path.exists():
            place = path.relative_to(root)
            refuse(f"{place} exists already: choose another name than {name!r}")
    packages = {
        root / "solutions" / system / folder / "__init__.py": f'"""{about}"""\n'
        for folder, about in FOLDERS.items()
    }
    copies |= {path: text for path, text in packages.items() if not path.exists()}
    return copies | {catalogue.file: _catalogue_with(catalogue, name, system)}


def _copies(example: Kata, name: str, system: str) -> Iterator[tuple[Path, str]]:
    """Yields the path of each file of the new kata, and the text of the example's file."""
    root = example.root
    for module, folder in zip((example.solution[0], example.before[0]), FOLDERS, strict=True):
        yield root / "solutions" / system / folder / f"{name}.py", _module(module, root)
    yield root / "katas" / system / f"test_{name}.py", example.test_path.read_text(encoding="utf-8")
    for beside in (example.attempts_folder, example.variants_folder):
        for path in sorted(beside.glob("*.*")):
            copy = beside.parents[1] / system / name / path.name
            yield copy, path.read_text(encoding="utf-8")


def _module(target: Target, root: Path) -> str:
    """Returns a module with the target's function alone, and what it needs."""
    source = source_module(target.module, root)
    code = source.statement_text(source.definition(target.name))
    needs = needs_of(code, [source])
    constants = [helper.text for helper in needs.helpers.values() if not helper.is_definition]
    definitions = [helper.text for helper in needs.helpers.values() if helper.is_definition]
    docstring = f'"""An example: say here what `{target.name}` shows."""'
    top = head(docstring, source.has_lazy_annotations, needs.imports, constants)
    return "\n\n\n".join([top, *definitions, code]) + "\n"


def _renamed(text: str, example: Kata, name: str) -> str:
    """Returns `text` with the new name in place of the names of the example and its function."""
    return re.sub(rf"\b({example.name}|{example.exported_names[0]})\b", name, text)


def _catalogue_with(catalogue: Catalogue, name: str, system: str) -> str:
    """Returns katas.toml with an entry for the new kata, after the last kata of its system."""
    top, *entries = catalogue.file.read_text(encoding="utf-8").split(TABLE)
    values = {
        "system": system,
        "chapter": catalogue.of_system(system)[0].chapter,
        "title": name.replace("_", " ").capitalize(),
        "solution": f"solutions.{system}.katas.{name}:{name}",
        "before": f"solutions.{system}.katas.before.{name}:{name}",
    }
    entry = _renamed(entries[0], catalogue.katas[0], name)
    for key, value in values.items():
        entry = re.sub(rf"^{key} = .*$", f'{key} = "{value}"', entry, flags=re.MULTILINE)
    last = max(at for at, kata in enumerate(catalogue.katas) if kata.system == system)
    entries[last] = entries[last].rstrip("\n") + "\n\n"
    entries.insert(last + 1, entry)
    return TABLE.join([top, *entries]).rstrip("\n") + "\n"
