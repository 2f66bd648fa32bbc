"""Knows the parts of `cpu` and `item`, but not that inference mode shows them whole.

fails: test_it_sees_through_inference_mode
says: a note of the wait in `item`, in inference mode
says: inside `with self:` the mode is shown these parts
"""

import os
import traceback
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import debubble.accelerator

aten = torch.ops.aten
MACHINERY = (os.path.dirname(torch.__file__), os.path.dirname(debubble.__file__) + os.sep, __file__)


class Wait(NamedTuple):
    what: str
    function: str
    line: str


def note(what):
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(MACHINERY):
            return Wait(what, frame.name, frame.line)


class SyncDetector(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        what = None if allowed.get() else why_it_waits(func, args, kwargs)
        if what:
            self.waits.append(note(what))
        return func(*args, **kwargs)


allowed = ContextVar("allowed", default=False)


@contextmanager
def allow_waits():
    outer = allowed.set(True)
    try:
        yield
    finally:
        allowed.reset(outer)


def on_device(tensor):
    return tensor.device.type != "cpu"


def why_it_waits(func, args, kwargs):
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if func is aten._to_copy.default:
        return why_to_waits(args[0], **kwargs)
    if not any(map(on_device, tensors)):
        return None
    if func is aten.copy_.default:
        return why_copy_waits(*args, **kwargs)
    if func is aten._local_scalar_dense.default:
        return "a value is read"
    if func is aten.lift_fresh.default:
        return "Python values go to the device"
    if func is aten.index_put_.default:
        masks = [index for index in args[1] if index is not None and index.dtype == torch.bool]
        return "the value goes to the device" if not (on_device(args[2]) or masks) else None
    if func is aten.index.Tensor:
        masks = [index for index in args[1] if index is not None and index.dtype == torch.bool]
        return "a mask has to be counted" if masks else None
    if torch.Tag.dynamic_output_shape in func.tags and kwargs.get("output_size") is None:
        return "the size depends on the data"
    return None


def why_to_waits(source, device=None, non_blocking=False, **options):
    goes_to_device = torch.device(device or source.device).type != "cpu"
    if goes_to_device == on_device(source):
        return None
    if not non_blocking:
        return "a blocking copy"
    return unfit(source) if goes_to_device else None


def why_copy_waits(target, source, non_blocking=False):
    if on_device(target) == on_device(source):
        return None
    if not non_blocking:
        return "a blocking copy"
    return unfit(target if on_device(source) else source)


def unfit(host):
    if not host.is_pinned():
        return "a copy of pageable memory"
    return None if host.is_contiguous() else "a copy of memory with holes"
