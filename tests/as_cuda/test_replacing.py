"""The replacements of PyTorch's functions by --as-cuda look like them, and take the same
arguments."""

import inspect
import sys
from types import ModuleType

import pytest

import debubble
from debubble.sim.as_cuda import amp, compiling, meaning, tensors
from debubble.sim.as_cuda.replacing import in_place_of

pytestmark = [pytest.mark.sim, pytest.mark.filterwarnings("ignore::FutureWarning")]
SEEN = ("__name__", "__qualname__", "__module__", "__doc__")
"""The attributes of a function that PyTorch's compiler, pickle and `help` read."""


def owners() -> dict[str, object]:
    """Returns, by name, the imported modules of PyTorch and Triton, and the classes that are
    defined in them."""
    modules = {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("torch", "triton") and type(module) is ModuleType
    }
    classes = {
        f"{name}.{value.__qualname__}": value
        for name, module in modules.items()
        for value in list(vars(module).values())
        if isinstance(value, type) and value.__module__ == name
    }
    return {**modules, **classes}


@pytest.fixture(scope="module")
def replaced():
    """Returns {name: (original, replacement)} for every function and class of PyTorch and Triton
    that `debubble.as_cuda` replaces."""
    debubble.accelerator("sim")
    with debubble.as_cuda():
        walked = owners()  # with the modules that the block imports
    before = {name: dict(vars(owner)) for name, owner in walked.items()}
    with debubble.as_cuda():
        now = {name: dict(vars(owner)) for name, owner in walked.items()}
    found = {}
    for owner, values in now.items():
        for name, value in values.items():
            original = before[owner].get(name, getattr(walked[owner], name, None))
            if value is not original and callable(original):
                found[f"{owner}.{name}"] = (original, value)
    assert {"torch.cuda.synchronize", "torch.compile", "torch.Tensor.cuda"} <= set(found)
    return found


def differences(original, value) -> list[str]:
    """Returns the names of attributes in which the replacement `value` differs from `original`."""
    if isinstance(original, type):
        names = SEEN
        found = [] if isinstance(value, type) else ["is no class"]
    else:
        names = (*SEEN, *vars(original)) if hasattr(original, "__dict__") else SEEN
        wrapped = getattr(original, "__wrapped__", original)
        found = [] if value.__wrapped__ is wrapped else ["__wrapped__"]
        found += [] if signature(value) == signature(original) else ["signature"]
    had = [name for name in names if hasattr(original, name)]
    return found + [n for n in had if getattr(value, n, None) != getattr(original, n)]


def signature(function) -> inspect.Signature | None:
    """Returns the function's signature; None for a C++ function without one."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def test_each_looks_like_what_it_replaces(replaced):
    found = {name: differences(*pair) for name, pair in replaced.items()}
    del found["torch.Stream"]  # it is torch.cuda's: a stream that either makes is one of both
    assert not {name: lost for name, lost in found.items() if lost}
    assert len(found) > 100


def test_one_function_of_two_names_is_still_one(replaced):
    by_original: dict[int, set[int]] = {}
    for original, value in replaced.values():
        by_original.setdefault(id(original), set()).add(id(value))
    several = [o for o, _ in replaced.values() if len(by_original[id(o)]) > 1]
    assert not several


def test_each_takes_the_arguments_of_what_it_replaces(monkeypatch):
    """Each replacement takes the arguments of the original function, by position and by keyword,
    such as `torch.cuda.get_device_name(device=0)`."""
    refused = []

    def checked(owner, values):
        for name, value in values.items():
            original = getattr(owner, name, None)
            theirs, ours = signature(original), signature(value)
            for args, kwargs in calls(theirs) if theirs and ours and callable(original) else ():
                try:
                    ours.bind(*args, **kwargs)
                except TypeError as error:
                    refused.append(f"{getattr(owner, '__name__', owner)}.{name}: {error}")
        return in_place_of(owner, values)

    for module in (amp, compiling, meaning, tensors):
        monkeypatch.setattr(module, "in_place_of", checked)
    with debubble.as_cuda():
        assert not refused


def calls(of: inspect.Signature):
    """Yields two calls of a function with the signature `of` as (args, kwargs): as many arguments
    as possible by position, then by keyword."""
    kinds = inspect.Parameter
    by_position = [p for p in of.parameters.values() if p.kind <= kinds.POSITIONAL_OR_KEYWORD]
    needed = {
        p.name: None
        for p in of.parameters.values()
        if p.kind == kinds.KEYWORD_ONLY and p.default is kinds.empty
    }
    yield [None] * len(by_position), needed
    only = [None for p in by_position if p.kind == kinds.POSITIONAL_ONLY]
    named = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    yield only, {p.name: None for p in of.parameters.values() if p.kind in named}
