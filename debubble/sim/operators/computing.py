"""Runs an operator that computes on the CPU data, with the kernels that the operator table says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from debubble.clock.action import Action, kernel
from debubble.private import torch as private
from debubble.rules.composition import name_of
from debubble.rules.effects import NOTHING, ONE_KERNEL, Effects
from debubble.rules.gradients import IN_PLACE, as_on_cuda
from debubble.rules.measured import is_measured
from debubble.rules.operators import rule_of

from ..clock.device import SimDevice
from ..memory.chosen import Chosen
from ..memory.tape import flat_tensors
from ..tensor import SimTensor
from .differences.lost_values import WRITTEN, noting_losses
from .differences.other_means import ON_CPU
from .differences.wider_types import in_wider_types, types_to_widen
from .execution import Operation, execute
from .features import sparse
from .work import HALVES, MATRIX_PRODUCTS, matrix_product

NUMBERS = (bool, int, float, complex)
CHOOSES_BY_VALUE = {
    "embedding",
    "gather",
    "index",
    "index_add_",
    "index_copy_",
    "index_fill_",
    "index_put_",
    "index_select",
    "masked_fill_",
    "masked_scatter_",
    "masked_select",
    "put_",
    "scatter_",
    "scatter_add_",
    "scatter_reduce_",
    "take",
    "_index_put_impl_",
}
"""Operators that touch only a part of a tensor, which values in device memory choose: an index or a
mask."""
ON_EITHER_DEVICE = {
    **dict.fromkeys(("index.Tensor", "index_put_", "index_put", "_index_put_impl_"), 1),
    **dict.fromkeys(("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data"), 1),
}
"""The position of the argument whose tensors may also be on the CPU (indices, or the sizes of
batches), by operator."""


IN_FLOAT32 = {"mm", "bmm", "addmm", "addmv", "mv", "baddbmm"}
LARGE_PRODUCT = 1 << 16
"""The number of elements from which on a factor in half precision counts as large, so that its
product is computed in fp32."""


NORMALISATION = "native_batch_norm"
UPDATES = {NORMALISATION: slice(3, 5), "batch_norm_update_stats": slice(1, 3)}
"""The positions of arguments that an operator writes although its schema doesn't say so: running
statistics, which `native_batch_norm` updates in training only."""


class Computation:
    """Runs one operator overload on sim: created once, then called for every use with the
    operator's arguments."""

    def __init__(self, device: SimDevice, func: Any) -> None:
        self.device = device
        self.name = name_of(func)
        self.func = ON_CPU.get(self.name, private.op(func))
        signature = private.schema(func)
        self.written_arguments = [
            (position, argument.name)
            for position, argument in enumerate(signature.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.returns_written = bool(signature.returns) and all(
            returned.alias_info is not None and returned.alias_info.is_write
            for returned in signature.returns
        )
        takes_numbers = private.should_allow_numbers_as_tensors(signature.name.split("::")[1])
        self.only_tensors = [
            position
            for position, argument in enumerate(signature.arguments)
            if not takes_numbers and str(argument.type) in ("Tensor", "Optional[Tensor]")
        ]
        """The positions of tensor arguments for which PyTorch may pass a Python number, which the
        CPU's operator refuses."""
        self.widened = types_to_widen(self.name)
        self.rule = rule_of(self.name)
        self.is_measured = is_measured(self.name)
        self.updates = UPDATES.get(self.name)
        is_a_question = bool(signature.returns) and not signature.is_mutable
        if (
            self.rule is ONE_KERNEL
            and is_a_question
            and not any("Tensor" in str(r.type) for r in signature.returns)
        ):
            # The host answers from the tensor's metadata, without reading a value.
            self.rule = NOTHING
        self.multiplies = self.name in MATRIX_PRODUCTS
        self.takes_device = any(argument.name == "device" for argument in signature.arguments)
        self.whole = self.name.partition(".")[0] not in CHOOSES_BY_VALUE
        self.repeatable = torch.Tag.nondeterministic_seeded not in func.tags

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        inputs: list[torch.Tensor] = []
        cpu_args = all_on_cpu(args, inputs)
        for position in self.only_tensors:
            if position < len(args) and isinstance(args[position], NUMBERS):
                cpu_args[position] = _as_tensor(args[position], inputs)
        cpu_kwargs = kwargs
        if kwargs or self.takes_device:
            cpu_kwargs = {name: on_cpu(value, inputs) for name, value in kwargs.items()}
        if self.takes_device:
            cpu_kwargs["device"] = "cpu"
            cpu_kwargs.pop("pin_memory", None)
        on_device = [tensor for tensor in inputs if isinstance(tensor, SimTensor)]
        if len(on_device) < len(inputs):
            either = ON_EITHER_DEVICE.get(self.name)
            held = inputs if either is None else flat_tensors([*args[:either], *args[either + 1 :]])
            self._expect_one_device(held)
            self._expect_written_on_device(args, kwargs)
        effects = self.effects(args, kwargs)
        written = self._written(args, kwargs) if self.written_arguments else []
        target = None
        if self.returns_written and not written:
            target = self._sparse_target(args, kwargs)
        call: Callable[[], Any] | None = None
        if self.widened and not self.widened.isdisjoint([t.dtype for t in inputs]):
            to = [tensor.data_on_cpu for tensor in written]
            call = partial(
                in_wider_types, self.func, to, self.returns_written, cpu_args, cpu_kwargs
            )
        elif self.name in WRITTEN:
            plain = partial(self.func, *cpu_args, **cpu_kwargs)
            call = noting_losses(self.device, self.name, plain, cpu_args, cpu_kwargs)
        if self.updates is not None and (self.name != NORMALISATION or args[5]):
            written = [*written, *(t for t in args[self.updates] if isinstance(t, SimTensor))]
        chosen = None if self.whole else self._chosen(args, cpu_args)
        out = self.compute(effects, cpu_args, cpu_kwargs, on_device, written, call, chosen)
        for tensor in written:
            if tensor.data_on_cpu.shape != tensor.shape:
                tensor.look_at(tensor.data_on_cpu, tensor.block)
        if not self.returns_written:
            return on_sim(out, self.device)
        if target is not None:
            return sparse.replaced(target, on_sim(out, self.device))
        return written[0] if isinstance(out, torch.Tensor) else tuple(written)

    def _sparse_target(self, args: tuple, kwargs: dict) -> torch.Tensor | None:
        """Returns the sparse tensor that the operator changes in place, or None if it changes none.
        Raises NotImplementedError in a capture."""
        target = next(filter(sparse.is_sparse, self._all_written(args, kwargs)), None)
        if target is not None and self.device.capturing is not None:
            raise NotImplementedError(
                f"sim can't capture {self.name}, which changes a sparse tensor in place: use the "
                "operator that returns its result"
            )
        return target

    def effects(self, args: tuple, kwargs: dict) -> Effects:
        """Returns the kernels, copies and waits of the operator for these arguments, whose tensors
        may be on any device."""
        return self.rule if isinstance(self.rule, Effects) else self.rule(args, kwargs)

    def compute(
        self,
        effects: Effects,
        cpu_args: Sequence,
        cpu_kwargs: dict,
        on_device: list[SimTensor],
        written: Sequence[SimTensor] = (),
        call: Callable[[], Any] | None = None,
        chosen: Chosen | None = None,
    ) -> Any:
        """Runs the operator on CPU data, queues its kernels, and returns its result on the CPU. The
        operator reads `on_device` and writes `written`.

        `call` replaces the CPU's own operator on these arguments. `chosen` is the part of the first
        argument that the operator touches.
        """
        if not self.is_measured:
            self.device.note_unmeasured(self.name.partition(".")[0])
        if self.device.rules_out_waits:
            self.device.check(self.name, effects.actions(kernel(self.name)))
        if call is None and self.name in IN_FLOAT32 and _is_large_in_halves(on_device):
            call = partial(_in_float32, self.func, cpu_args, cpu_kwargs)
        in_parts = self.device.capturing is not None or self.device.in_flight.uploads
        if in_parts and any(map(sparse.is_sparse, cpu_args)):
            # If it runs again, its results are copied into these tensors.
            plain = call or partial(self.func, *cpu_args, **cpu_kwargs)
            call = lambda: sparse.parts_of(plain())
        operation = Operation(
            call or partial(self.func, *cpu_args, **cpu_kwargs),
            partial(self._actions, effects, on_device, cpu_args),
            on_device,
            written,
            not self.returns_written,
            self.repeatable,
            True,
            effects is not ONE_KERNEL and effects.waits,
            self.whole,
            chosen,
        )
        return execute(self.device, operation)

    def _chosen(self, args: tuple, cpu_args: Sequence) -> Chosen | None:
        """Returns the part of the first argument that the operator chooses by index. Returns None
        if no other stream and no copy by address could touch the same memory, so that no race is
        possible."""
        of = args[0]
        if not isinstance(of, SimTensor):
            return None
        if len(self.device.streams.all) == 1 and of.block.log is None:
            return None
        name = self.name.partition(".")[0]
        return Chosen.by(name, of.block, cpu_args, bool(self.written_arguments))

    def _actions(
        self, effects: Effects, inputs: list[SimTensor], cpu_args: Sequence, out: Any
    ) -> list[Action]:
        results = [out] if isinstance(out, torch.Tensor) else flat_tensors(out)
        moved = sum([result.numel() * result.element_size() for result in results])
        if results and not moved:
            if not effects.reads:
                return []
            effects = replace(effects, kernels_after=0)
        moved += sum([tensor.data_on_cpu.nbytes for tensor in inputs])
        name, args = self.name, cpu_args
        if name in IN_PLACE:
            name, args = as_on_cuda(name, cpu_args)
        us = self.device.cost.measured_us(name, args, results, moved)
        if self.multiplies:
            whole = matrix_product(self.name, moved, cpu_args, us)
        else:
            whole = Action("kernel", self.name, moved, microseconds=us)
        return [whole] if effects is ONE_KERNEL else effects.actions(whole)

    def _written(self, args: tuple, kwargs: dict) -> list[SimTensor]:
        return [t for t in self._all_written(args, kwargs) if isinstance(t, SimTensor)]

    def _all_written(self, args: tuple, kwargs: dict) -> list[torch.Tensor]:
        written: list[torch.Tensor] = []
        for position, name in self.written_arguments:
            value = args[position] if position < len(args) else kwargs.get(name)
            if isinstance(value, torch.Tensor):
                written.append(value)
            else:
                written += flat_tensors(value)
        return written

    def _expect_one_device(self, inputs: list[torch.Tensor]) -> None:
        """Raises RuntimeError if one of these tensors is on the CPU, unless it has no dimensions,
        and so counts as a number."""
        for tensor in inputs:
            if not isinstance(tensor, SimTensor) and tensor.dim() > 0:
                raise RuntimeError(
                    f"{self.name} expects all tensors on one device, and found sim:0 and "
                    f"{tensor.device}: move the tensor of shape {tuple(tensor.shape)} first"
                )

    def _expect_written_on_device(self, args: tuple, kwargs: dict) -> None:
        """Raises RuntimeError if the operator would write to a CPU tensor. PyTorch reads a CPU
        tensor without dimensions as a number, but never writes to one."""
        for tensor in self._all_written(args, kwargs):
            if not isinstance(tensor, SimTensor):
                raise RuntimeError(
                    f"{self.name} expects all tensors on one device, and found sim:0 and "
                    f"{tensor.device}: it would write to the tensor of shape "
                    f"{tuple(tensor.shape)} on {tensor.device}, so make that one on sim:0"
                )


def _is_large_in_halves(factors: list[SimTensor]) -> bool:
    """Returns True if a product is worth computing in fp32: all factors are of one half type and at
    least one is large. Factors of two types are left to PyTorch, which refuses to multiply them."""
    dtype = factors[0].dtype
    if dtype not in HALVES or any(factor.dtype != dtype for factor in factors):
        return False
    return any(factor.numel() >= LARGE_PRODUCT for factor in factors)


def _in_float32(func: Any, args: Sequence, kwargs: dict[str, Any]) -> torch.Tensor:
    """Returns the matrix product `func` of halves, computed in fp32 and rounded once, as on tensor
    cores. Most CPUs have no instructions for halves, and take forty times as long with them."""
    in_float32 = [arg.float() if isinstance(arg, torch.Tensor) else arg for arg in args]
    dtype = next(arg.dtype for arg in args if isinstance(arg, torch.Tensor))
    return func(*in_float32, **kwargs).to(dtype)


def _as_tensor(number: bool | int | float | complex, beside: list[torch.Tensor]) -> torch.Tensor:
    """Returns a number as a CPU tensor. A float becomes float64 if a tensor in `beside`, the other
    arguments, is float64."""
    is_exact = isinstance(number, float) and any(t.dtype == torch.float64 for t in beside)
    return torch.tensor(number, dtype=torch.float64 if is_exact else None, device="cpu")


def all_on_cpu(values: Sequence, inputs: list[torch.Tensor]) -> list:
    """Returns arguments with CPU data in place of sim tensors. Appends all tensors among them, as
    they were, to `inputs`."""
    found = []
    for value in values:
        kind = type(value)
        if kind is SimTensor:
            inputs.append(value)
            value = value.data_on_cpu
        elif kind not in WITHOUT_TENSORS:
            value = on_cpu(value, inputs)
        found.append(value)
    return found


WITHOUT_TENSORS = {type(None), bool, int, float, str, torch.dtype}
"""The most common types of arguments that contain no tensors."""


def on_cpu(value: Any, inputs: list[torch.Tensor]) -> Any:
    """Returns an argument, a tensor or nested lists of them, with CPU data in place of sim tensors.
    Appends all its tensors, as they were, to `inputs`."""
    if isinstance(value, torch.Tensor):
        if isinstance(value, SimTensor):
            inputs.append(value)
            return value.data_on_cpu
        if sparse.is_sparse(value) and value.device.type != "cpu":
            return sparse.on_cpu_data(value, inputs)
        value = value if value.device.type == "cpu" else _brought_to_cpu(value)
        inputs.append(value)
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(all_on_cpu(value, inputs))
    return value


def _brought_to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Returns real zeros for a zero tensor on sim, which forward derivatives make without memory.

    Raises RuntimeError for any other device tensor that is no SimTensor: reading its memory would
    end the process.
    """
    if private.is_zerotensor(tensor):
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
    kind = f"a {type(tensor).__name__} with layout {tensor.layout}"
    raise RuntimeError(
        f"expected all tensors to be dense tensors on sim, and found {kind} on {tensor.device}: "
        "move it to the CPU, or make it dense, first"
    )


def on_sim(value: Any, device: SimDevice) -> Any:
    """Returns an operator's results, a CPU tensor or nested lists of them, as tensors on sim over
    the same data, each with a new allocation. Raises NotImplementedError for a tensor that is
    nested, or sparse in another layout than COO."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_nested:
            if sparse.is_sparse(value):
                return on_sim(sparse.parts_of(value), device)
            kind = "nested" if value.is_nested else str(value.layout)
            raise NotImplementedError(f"sim has no {kind} tensors: keep this one on the CPU")
        return device.made(SimTensor(value))
    if isinstance(value, sparse.Parts):
        return value.each(partial(on_sim, device=device)).whole()
    if isinstance(value, (list, tuple)):
        return type(value)([on_sim(item, device) for item in value])
    return value
