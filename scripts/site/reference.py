"""The public names, with their signatures and docstrings as the code has them."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

from debubble.contract.protocol import Accelerator

from .page import Page

SYSTEMS = (
    "pinned_h2d", "sync_free", "gdn", "flex_graph", "offload", "host_bound", "engine", "models",
)  # fmt: skip

PULL_REQUEST = re.compile(r"^#(?=\d)", re.MULTILINE)


def pages() -> list[Page]:
    return [page_of("debubble"), *(page_of(f"solutions.{system}") for system in SYSTEMS)]


def page_of(module_name: str) -> Page:
    module = importlib.import_module(module_name)
    title = f"Reference: {module_name}"
    parts = [f"# {title}", as_markdown(inspect.getdoc(module) or "")]
    named = {name: getattr(module, name) for name in module.__all__}
    if module_name == "debubble":
        named["Accelerator"] = Accelerator
    for name, value in named.items():
        parts += entry(name, value, "##")
        if inspect.isclass(value):
            for member, found in members(value):
                parts += entry(f"{name}.{member}", found, "###")
    return Page.of_markdown(f"reference/{module_name}.html", title, "\n\n".join(parts))


def entry(name: str, value: object, heading: str) -> list[str]:
    """Returns the paragraphs about one public name: heading, signature and docstring. A constant
    has a value and no docstring of its own."""
    if not (callable(value) or isinstance(value, (property, classmethod, staticmethod))):
        return [f"{heading} {name}", f"```python\n{name} = {value!r}\n```"]
    return [
        f"{heading} {name}",
        f"```python\n{name}{signature(value)}\n```",
        as_markdown(inspect.getdoc(value) or ""),
    ]


def members(owner: type) -> Iterator[tuple[str, object]]:
    """Yields name and value of the public methods and properties of a class that have a docstring,
    in source order, its own first."""
    seen: set[str] = set()
    for part in owner.__mro__:
        if part.__module__.partition(".")[0] not in ("debubble", "solutions"):
            continue
        for name, value in vars(part).items():
            known = inspect.isfunction(value) or isinstance(value, (property, classmethod))
            if known and not name.startswith("_") and name not in seen and inspect.getdoc(value):
                seen.add(name)
                yield name, value


def signature(value: object) -> str:
    if isinstance(value, property):
        return ""
    function = value.__func__ if isinstance(value, classmethod) else value
    try:
        return str(inspect.signature(function))  # type: ignore[arg-type]  # a class or a function
    except (TypeError, ValueError):
        return "(…)"


def as_markdown(text: str) -> str:
    """Returns a docstring's paragraphs as markdown; indented paragraphs stay as they are, `<` is
    escaped, and a line that begins with the number of a pull request is no heading."""
    paragraphs = []
    text = PULL_REQUEST.sub(r"\\#", text)
    for paragraph in text.split("\n\n"):
        code = all(line.startswith("    ") for line in paragraph.splitlines())
        paragraphs.append(paragraph if code else re.sub(r"<(?=\w)", "&lt;", paragraph))
    return "\n\n".join(paragraphs)
