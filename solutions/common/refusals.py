"""Checks of argument types for the public functions of a system, with errors of one sentence.

    refuse_wrong_types(globals(), __all__)

in a package's `__init__` wraps its functions, so that an argument of another type than the
signature says raises TypeError before anything else happens. Each function checks the values of its
arguments itself. A signature is read once; a call costs a microsecond or two.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, get_args, get_origin

import numpy as np
import torch

from .host_integers import is_integer
from .shown import shown

P = ParamSpec("P")
R = TypeVar("R")


class Rule(NamedTuple):
    """A check of one argument's type: `holds` returns True for a right value."""

    holds: Callable[[Any], bool]
    give: str
    """The type to give instead, as the end of a sentence after "give"."""


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, int | float | np.integer | np.floating)
    # False for NaN, which compares as False.
    return is_one and not isinstance(value, bool) and bool(_size(value) <= sys.float_info.max)


def _size(value: Any) -> Any:
    return abs(value)


def _is_device(value: object) -> bool:
    if not isinstance(value, str):
        return isinstance(value, torch.device)
    try:
        torch.device(value)
    except RuntimeError:
        return False
    return True


def _is_list(value: object) -> bool:
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, str | bytes)


def _is_iterable(value: object) -> bool:
    return isinstance(value, collections.abc.Iterable) and not isinstance(value, str | bytes)


LIMIT = 2**63
RULES = {
    "None": Rule(lambda value: value is None, "None"),
    "int": Rule(lambda value: is_integer(value) and -LIMIT <= value < LIMIT, "an integer"),
    "float": Rule(_is_number, "a finite number"),
    "bool": Rule(lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "str": Rule(lambda value: isinstance(value, str), "a str"),
    "torch.Tensor": Rule(lambda value: isinstance(value, torch.Tensor), "a tensor"),
    "torch.device": Rule(_is_device, "a torch.device"),
    "torch.dtype": Rule(lambda value: isinstance(value, torch.dtype), "a torch.dtype"),
    "np.ndarray": Rule(lambda value: isinstance(value, np.ndarray), "a numpy array"),
    "range": Rule(lambda value: isinstance(value, range), "a range"),
    "tuple": Rule(lambda value: isinstance(value, tuple), "a tuple"),
    "list": Rule(lambda value: isinstance(value, list), "a list"),
    "dict": Rule(lambda value: isinstance(value, dict), "a dict"),
    "Sequence": Rule(_is_list, "a list"),
    "Iterable": Rule(_is_iterable, "a list"),
    "Mapping": Rule(lambda value: isinstance(value, collections.abc.Mapping), "a dict"),
    "AbstractSet": Rule(lambda value: isinstance(value, collections.abc.Set), "a set"),
}
"""The rule for each type, by the type's name in a signature."""


def refuse_wrong_types(names: dict[str, object], public: Iterable[str]) -> None:
    """Makes the `public` functions and classes of a package raise TypeError for an argument of a
    wrong type. `names`, the package's globals(), gets the wrapped functions; a class gets a wrapped
    `__init__` and wrapped methods without a leading underscore."""
    for name in public:
        thing = names.get(name)
        if inspect.isfunction(thing):
            names[name] = door_of(thing, name)
        elif inspect.isclass(thing):
            _before_methods(thing)


def _before_methods(owner: type) -> None:
    for name, method in list(vars(owner).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            what = owner.__name__ if name == "__init__" else f"{owner.__name__}.{name}"
            setattr(owner, name, door_of(method, what))


def door_of(function: Callable[P, R], name: str) -> Callable[P, R]:
    """Returns `function` with a check: TypeError, which calls it `name`, for an argument of another
    type than its signature says. Arguments are not checked if their type is neither in RULES nor a
    class."""
    places = list(inspect.signature(function).parameters)
    rules = {place: rule for place in places if (rule := _rule_of(function, place))}

    @functools.wraps(function)
    def door(*given: P.args, **named: P.kwargs) -> R:
        for place, value in zip(places, given, strict=False):
            if place in rules and not rules[place].holds(value):
                raise _refusal(name, place, value, rules[place])
        for place, value in named.items():
            if place in rules and not rules[place].holds(value):
                raise _refusal(name, place, value, rules[place])
        return function(*given, **named)

    return door


def _refusal(name: str, place: str, value: object, rule: Rule) -> TypeError:
    return TypeError(f"{name}: {place} is {shown(value)}: give {rule.give}")


def _rule_of(function: Callable[..., Any], place: str) -> Rule | None:
    """Returns the rule for the parameter `place`, which any of the alternatives in its signature
    satisfies. Returns None if an alternative, or the whole type, is unknown."""
    annotation = function.__annotations__.get(place)
    if not isinstance(annotation, str):
        return None
    found = [_rule_of_type(function, text.strip()) for text in _alternatives(annotation)]
    if not all(found):
        return None
    rules = [rule for several in found if several for rule in several]
    if len(rules) == 1:
        return rules[0]
    holds = tuple(rule.holds for rule in rules)
    give = " or ".join(dict.fromkeys(rule.give for rule in rules))
    return Rule(lambda value: any(one(value) for one in holds), give)


def _alternatives(annotation: str) -> list[str]:
    """Splits a union at its top level: "Sequence[int | str] | None" has two alternatives."""
    parts, depth = [""], 0
    for character in annotation:
        depth += (character == "[") - (character == "]")
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _rule_of_type(function: Callable[..., Any], text: str) -> list[Rule]:
    """Returns the rules for the type that `text` names, or for the types that an alias stands for;
    empty if the type is unknown."""
    name, _, members = text.partition("[")
    if name == "Sequence" and members:
        of_member = _rules_of_members(function, members.removesuffix("]"))
        return [_list_of(of_member[0])] if of_member else [RULES[name]]
    if name in RULES:
        return [RULES[name]]
    return _rules_of(inspect.unwrap(function).__globals__.get(name))


def _rules_of_members(function: Callable[..., Any], text: str) -> list[Rule]:
    """Returns the rules of a list's members if these are tensors, ranges or of a class of ours:
    such lists are short. Lists of numbers are long, and the functions that take them check them."""
    if text not in ("torch.Tensor", "range") and (text in RULES or not text.isidentifier()):
        return []
    return _rule_of_type(function, text)


def _list_of(member: Rule) -> Rule:
    return Rule(
        lambda value: _is_list(value) and all(map(member.holds, value)),
        f"a list, each member {member.give}",
    )


def _rules_of(stands_for: Any) -> list[Rule]:
    """Returns the rules for a class, a union or other alias, or a Literal; empty for anything else,
    such as a Protocol."""
    origin = get_origin(stands_for)
    if origin is Literal:
        return [Rule(RULES["str"].holds, " or ".join(map(repr, get_args(stands_for))))]
    if isinstance(origin, type) and origin.__name__ in RULES:
        return [RULES[origin.__name__]]
    if get_args(stands_for):
        found = [_rules_of(each) for each in get_args(stands_for)]
        return [rule for several in found for rule in several] if all(found) else []
    if stands_for is type(None):
        return [RULES["None"]]
    if not isinstance(stands_for, type) or getattr(stands_for, "_is_protocol", False):
        return []
    for rule_name in (
        stands_for.__name__,
        f"torch.{stands_for.__name__}",
        f"np.{stands_for.__name__}",
    ):
        if rule_name in RULES:
            return [RULES[rule_name]]
    return [Rule(lambda value: isinstance(value, stands_for), f"a {stands_for.__name__}")]
