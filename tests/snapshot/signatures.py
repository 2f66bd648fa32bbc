"""The signatures of the public names of `debubble` and `solutions`, wherever they are defined."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import solutions

PACKAGES = (
    "debubble",
    "debubble.accelerator",
    "debubble.detector",
    "debubble.timeline",
    "debubble.exercises",
)
SPECIAL = {
    f"__{name}__"
    for name in ("bool", "call", "contains", "enter", "exit", "getitem", "iter", "len", "str")
}
"""Names of special methods, such as `__len__`, that belong to a class's public face."""
PREFIX = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def signatures() -> dict[str, dict[str, Any]]:
    """Returns {package: {public name: its signature, or the members of a class}}."""
    packages = {name: import_module(name) for name in (*PACKAGES, *systems())}
    return {
        name: {public: described(getattr(package, public)) for public in package.__all__}
        for name, package in packages.items()
    }


def systems() -> Iterator[str]:
    for module in iter_modules(solutions.__path__, "solutions."):
        if module.ispkg and hasattr(import_module(module.name), "__all__"):
            yield module.name


def described(value: Any) -> Any:
    if inspect.isclass(value):
        return class_described(value)
    if inspect.isroutine(value):
        return signature_of(value)
    return f"{type(value).__name__}: {shown(value)}"


def class_described(cls: type) -> dict[str, Any]:
    fields = annotations_of(cls)
    return {
        "made by": made_by(cls),
        "is a": [base.__name__ for base in cls.__mro__[1:-1] if not is_ours(base)],
        "dataclass": is_dataclass(cls),
        "fields": fields,
        "members": dict(members_of(cls, fields)),
    }


def made_by(cls: type) -> str:
    """Returns the signature of a class's constructor; "" for a protocol, or if our code doesn't
    define a constructor."""
    is_protocol = getattr(cls, "_is_protocol", False)
    ours = any(is_ours(owner_of(cls, name)) for name in ("__init__", "__new__"))
    return signature_of(cls) if ours and not is_protocol else ""


def annotations_of(cls: type) -> dict[str, str]:
    """Returns the annotations, as text, of a class's public attributes, including those that it
    inherits from our own classes."""
    found = {}
    for base in reversed(cls.__mro__):
        if is_ours(base):
            found |= inspect.get_annotations(base)
    return {name: without_modules(kind) for name, kind in found.items() if is_public(name)}


def members_of(cls: type, fields: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name in dir(cls):
        if name not in fields and is_public(name) and is_ours(owner_of(cls, name)):
            yield name, member(inspect.getattr_static(cls, name))


def owner_of(cls: type, name: str) -> type:
    """Returns the class that defines the attribute `name` of `cls`; `object` if only the metaclass
    has it."""
    return next((base for base in cls.__mro__ if name in vars(base)), object)


def member(value: Any) -> str:
    if isinstance(value, property):
        return f"property {signature_of(value.fget)}"
    if isinstance(value, cached_property):
        return f"property {signature_of(value.func)}"
    if isinstance(value, classmethod | staticmethod):
        return f"{type(value).__name__} {signature_of(value.__func__)}"
    return signature_of(value) if inspect.isroutine(value) else shown(value)


def signature_of(value: Any) -> str:
    signature = inspect.signature(value)
    parameters = [
        parameter.replace(
            annotation=said(parameter.annotation, without_modules),
            default=said(parameter.default, shown),
        )
        for parameter in signature.parameters.values()
    ]
    returned = said(signature.return_annotation, without_modules)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def said(value: Any, how: Any) -> Any:
    return value if value is inspect.Parameter.empty else Words(how(value))


class Words:
    """A text that is shown without quotes in a signature, as an annotation or a default."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def without_modules(annotation: Any) -> str:
    """Returns an annotation as text without modules: `torch.Tensor` as `Tensor`, whether it is a
    text or a class."""
    annotation = getattr(annotation, "__forward_arg__", annotation)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return PREFIX.sub("", text)


def shown(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__qualname__
    return PREFIX.sub("", ADDRESS.sub("", repr(value)))


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in SPECIAL


def is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("debubble", "solutions")
