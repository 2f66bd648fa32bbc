"""Makes `katas/<system>/given.py`: the helpers that a system's stubs and solutions share.

A stub imports them, so that it shows the exercise alone.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from ..catalogue import Kata
from ..tables import ExerciseError
from .generate import exercise_of, from_line, given_module, head
from .helpers import Helper, needs_of
from .source import Import, defined_names, names_read

DOCSTRING = '''"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""'''


def given_text(katas: Sequence[Kata]) -> str:
    """Returns the text of `given.py` for the katas of one system, or "" if they are given no code.
    Raises ExerciseError if two katas need different code of the same name."""
    imports: dict[Import, None] = {}
    helpers: dict[str, Helper] = {}
    is_lazy = False
    for kata in katas:
        exercise = exercise_of(kata)
        needs = needs_of("\n".join(sorted(exercise.given)), exercise.modules)
        imports |= dict.fromkeys(needs.imports)
        is_lazy = is_lazy or exercise.is_lazy
        for name, helper in needs.helpers.items():
            if helpers.setdefault(name, helper) != helper:
                raise ExerciseError(
                    f"{kata.label} is given another {name} than an earlier kata of "
                    f"{kata.system}: rename one of them"
                )
    constants = [helper.text for helper in helpers.values() if not helper.is_definition]
    definitions = [helper.text for helper in helpers.values() if helper.is_definition]
    top = head(DOCSTRING, is_lazy, [*imports], constants)
    return "\n\n\n".join([top, *definitions]) + "\n" if helpers else ""


def path_of_given(root: Path, system: str) -> Path:
    return root.joinpath(*given_module(system).split(".")).with_suffix(".py")


def with_given_imported(text: str, kata: Kata, given: str) -> str:
    """Returns a learner's code with imports of the names that it reads, does not define, and finds
    in `given`, the text of their system's given.py. Returns code that Python can't read as it
    is."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return text
    module = given_module(kata.system)
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    ours = [n for n in imports if isinstance(n, ast.ImportFrom) and n.module == module]
    known = {alias.asname or alias.name for node in imports for alias in node.names}
    there = {name for node in ast.parse(given).body for name in defined_names(node)}
    missing = [name for name in names_read(text) if name in there and name not in known]
    if not (missing and imports):
        return text
    names = {*missing, *(alias.name for node in ours[:1] for alias in node.names)}
    line = from_line(module, [Import(module, name) for name in names])
    lines = text.splitlines(keepends=True)
    if ours:
        lines[ours[0].lineno - 1 : ours[0].end_lineno] = [line + "\n"]
    else:
        lines.insert(imports[-1].end_lineno or imports[-1].lineno, f"\n{line}\n")
    return "".join(lines)
