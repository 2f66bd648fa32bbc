"""Public signatures have types for arguments and results."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted((ROOT / "debubble").rglob("*.py")),
    *sorted((ROOT / "solutions").rglob("*.py")),
    ROOT / "debubble_pytest.py",
]
"""The Python files that mypy checks."""
WITHOUT_TYPES = tuple(ROOT / "debubble" / name for name in ("cuda", "sim", "private"))
"""The packages that are called only through the contract and by PyTorch, which passes arguments of
any type; and the door to private names, most of which have no types."""
PUBLIC = [
    path for path in FILES if not any(path.is_relative_to(folder) for folder in WITHOUT_TYPES)
]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(
    tree: ast.Module | ast.ClassDef, within: str = ""
) -> Iterator[tuple[str, Function]]:
    for node in tree.body:
        if not isinstance(node, Function | ast.ClassDef):
            continue
        name, is_private = within + node.name, node.name.startswith("_")
        if isinstance(node, ast.ClassDef):
            if not is_private:
                yield from public_functions(node, f"{name}.")
        elif node.name in ("__init__", "__call__") or not (is_private or is_kernel(node)):
            yield name, node


def is_kernel(node: Function) -> bool:
    """Returns True for a Triton kernel, in which annotations mean something else than types."""
    return any("triton" in ast.unparse(decorator) for decorator in node.decorator_list)


def offences(source: str) -> list[str]:
    """Returns a sentence for each argument and each result of a public function that has no type,
    or whose type is or contains Any."""
    found = []
    for name, node in public_functions(ast.parse(source)):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += [argument for argument in (node.args.vararg, node.args.kwarg) if argument]
        for place, argument in enumerate(arguments):
            is_self = place == 0 and "." in name and argument.arg in ("self", "cls", "_cls")
            if argument.annotation is None and not is_self:
                found.append(f"{name}: {argument.arg} has no type")
            elif argument.annotation is not None and says_any(argument.annotation):
                found.append(f"{name}: {argument.arg} may be Any")
        if node.returns is None:
            found.append(f"{name} doesn't say what it returns")
        elif says_any(node.returns):
            found.append(f"{name} returns Any")
    return found


def says_any(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def double(x: int) -> int: ...", []),
        ("def _double(x): ...", []),
        ("class Double:\n    def __call__(self, x: int) -> int: ...", []),
        ("@triton.jit\ndef double(x_ptr, size): ...", []),
        ("def double(x) -> int: ...", ["double: x has no type"]),
        (
            "def double(*x: int, **y): ...",
            ["double: y has no type", "double doesn't say what it returns"],
        ),
        (
            "def double(x: dict[str, Any]) -> 'list[Any]': ...",
            ["double: x may be Any", "double returns Any"],
        ),
        (
            "class Double:\n    def of(self, x): ...",
            ["Double.of: x has no type", "Double.of doesn't say what it returns"],
        ),
    ],
)
def test_a_signature_without_types_is_found(source, found):
    assert offences(source) == found


def test_public_signatures_have_types_and_none_is_any():
    found = [
        f"{path.relative_to(ROOT)}: {offence}"
        for path in PUBLIC
        for offence in offences(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_what_the_type_checker_is_told_to_ignore_has_a_reason():
    ignores = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "type: ignore" in line
    ]
    without_reason = [line for line in ignores if line.count("#") < 2]
    assert without_reason == [], "write `# type: ignore[code]  # why`"
