"""Runs an ATen operator on sim: as a view, a copy, a composition of parts, or a computation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from debubble.private import torch as private
from debubble.rules.composition import is_view, name_of, parts_of

from ..clock.device import SimDevice
from ..memory.blocks import NO_MEMORY, Block, out_of_memory
from ..tensor import SimTensor
from .collectives import OF_ONE_SIDE, Collective
from .computing import Computation, on_cpu
from .copying import Copies
from .differences.cuda_refusals import Operator, refusing_as_cuda
from .differences.other_means import LEAVES_OUT, writing_out

aten = torch.ops.aten


class Dispatcher:
    """The function that PyTorch calls for each operator on sim. At the first call of an overload it
    finds the function that runs it."""

    def __init__(self, device: SimDevice) -> None:
        self.device = device
        self.copies = Copies(device)
        self._known: dict[Any, Operator] = {
            aten.copy_.default: self.copies.copy_,
            private.to_copy.default: self.copies.to_copy,
            aten.is_pinned.default: lambda args, kwargs: False,
            private.nested_tensor_from_mask_left_aligned.default: _are_left_aligned,
        }
        self._runs = {id(func): run for func, run in self._known.items()}
        """The functions in `_known` by the `id` of their overload, because PyTorch computes the
        hash of an overload in Python."""

    def __call__(self, func: Any, args: tuple, kwargs: dict) -> Any:
        run = self._runs.get(id(func))
        if run is None:
            run = self._runs[id(func)] = self._known[func] = self._classify(func)
        device = self.device
        lock = device.lock
        if not lock.acquire(False):
            device.wait_for_lock()
        python = device.own_python
        if python is not None:
            python.ends()
        outer, device.operator = device.operator, func
        try:
            return run(args, kwargs)
        except RuntimeError as error:
            if NO_MEMORY in str(error):
                raise out_of_memory() from None
            raise
        finally:
            device.operator = outer
            lock.release()
            if python is not None:
                python.begins()

    def aside(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `call`, a function of sim that PyTorch calls, so that its time is not taken for
        the learner's Python."""

        def run(*args: Any, **kwargs: Any) -> Any:
            python = self.device.own_python
            if python is None:
                return call(*args, **kwargs)
            python.ends()
            try:
                return call(*args, **kwargs)
            finally:
                python.begins()

        return run

    def runs_by(self, func: Any, run: Operator) -> None:
        """Makes the function `run` run the operator overload `func` from now on."""
        self._known[func] = self._runs[id(func)] = run

    def _classify(self, func: Any) -> Operator:
        if name_of(func) in LEAVES_OUT:
            return writing_out(func)
        if torch.Tag.inplace_view in func.tags:
            return partial(self._view_in_place, func)
        if func.namespace == "c10d" and private.op_name(func) not in OF_ONE_SIDE:
            return Collective(self.device, func)
        parts = parts_of(func)
        if parts is not None:
            return partial(in_parts, parts)
        if is_view(func):
            return partial(self._view, private.op(func))
        return refusing_as_cuda(func, Computation(self.device, func))

    def _view_in_place(self, func: Any, args: tuple, kwargs: dict) -> SimTensor:
        """Runs `t_`, `resize_`, `set_` or a similar operator, which changes the tensor's view."""
        self.device.host_works(self.device.cost.op_us)
        is_set = func.overloadpacket is aten.set_
        if not is_set:
            # Work that may run again keeps the old view of the memory.
            args[0].data_on_cpu = aten.alias(args[0].data_on_cpu)
        tensors: list[torch.Tensor] = []
        data = func(*on_cpu(args, tensors), **kwargs)
        looked_at = next((t for t in reversed(tensors) if isinstance(t, SimTensor)), args[0])
        args[0].look_at(data, (looked_at if is_set else args[0]).block)
        return args[0]

    def _view(self, func: Any, args: tuple, kwargs: dict) -> Any:
        self.device.host_works(self.device.cost.op_us)
        of = args[0]
        out = func(of.data_on_cpu, *args[1:], **kwargs)
        # A view of a tensor with a version counter has one too, even in inference mode.
        if torch.is_inference_mode_enabled() == of.is_inference():
            view = _looking_at(out, of.block)
        else:
            with torch.inference_mode(of.is_inference()):
                view = _looking_at(out, of.block)
        if of.block.replays:
            taken = of.taken or (of.block.replays, self.device.source())
            for each in view if isinstance(view, list) else [view]:
                each.taken = taken
        return view


def in_parts(parts: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    """Runs an operator by calling `parts`, which calls the other operators that it consists of.

    PyTorch has materialized conjugate and negative views of the arguments by now, and excludes the
    keys that do so. They are included again here, or the parts would ignore such views.
    """
    includes = private.dispatch_tls_local_include_set()
    excludes = private.dispatch_tls_local_exclude_set() - WRITES_OUT_MARKED
    with private.ForceDispatchKeyGuard(includes, excludes):
        return parts(*args, **kwargs)


WRITES_OUT_MARKED = private.DispatchKeySet(private.DispatchKey.Conjugate) | (
    private.DispatchKeySet(private.DispatchKey.Negative)
)


def _are_left_aligned(args: tuple, kwargs: dict) -> bool:
    """Replaces an operator with which `nn.TransformerEncoder` asks if it may drop padded rows.
    Returns False, because sim has no nested tensors. Reads the mask first, because CUDA waits for
    it."""
    bool(args[1].all())
    return False


def _looking_at(data: Any, block: Block) -> Any:
    """Returns a tensor on sim over `block` for the CPU tensor `data`, or a list of them for several
    tensors."""
    if not isinstance(data, torch.Tensor):
        return [_looking_at(part, block) for part in data]
    view = SimTensor(data, block)
    if data.is_conj() or data.is_neg():
        private.set_conj(view, data.is_conj())
        private.set_neg(view, data.is_neg())
    return view
