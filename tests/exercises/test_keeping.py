"""Code that keeps every call's results is told so; code that keeps one shared value is not."""

import sys
from types import ModuleType

import pytest

from debubble.exercises import KataFailure
from debubble.exercises.teaching.keeping import MOST_KEPT, must_not_keep

PLACES = {
    "a list": "kept = []\ndef call(t): kept.append(t)",
    "a dict in an object": "class Kept: pass\nkept = Kept()\nkept.all = {}\n"
    "def call(t): kept.all[id(t)] = [t]",
    "a cache": "from functools import cache\nfrom torch import tensor\n@cache\n"
    "def sent(n): return tensor(n)\ndef call(t): sent(int(t))",
    "an attribute of a function": "def call(t): call.kept = (*getattr(call, 'kept', ()), t)",
    "a default": "def call(t, kept=[]): kept.append(t)",
    "a closure": "def make():\n    kept = []\n    return lambda t: kept.append(t)\ncall = make()",
    "a class": "class Calls:\n    kept = set()\ndef call(t): Calls.kept.add(t)",
}


def after_calls(source, calls):
    import torch

    module = ModuleType("kata_tiny")
    sys.modules[module.__name__] = module
    exec(source, module.__dict__)
    for number in range(calls):
        module.call(torch.tensor(number))
    del sys.modules[module.__name__]
    return module


@pytest.mark.parametrize("place", PLACES)
def test_what_every_call_leaves_behind_is_found(place):
    with pytest.raises(KataFailure, match=f"still has {MOST_KEPT + 1} tensors"):
        must_not_keep([after_calls(PLACES[place], MOST_KEPT + 1)])
    must_not_keep([after_calls(PLACES[place], MOST_KEPT)])


def test_what_others_keep_is_theirs():
    source = "import builtins, torch\nfrom collections import deque\nkept = deque(maxlen=8)\n"
    must_not_keep([after_calls(f"{source}def call(t): kept.append(t)", 100)])
