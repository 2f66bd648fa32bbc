"""Registers "sim" with PyTorch: the device name, its module, its tensors and its factories."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from types import ModuleType
from typing import Any

import torch

from debubble.contract import backward_pass
from debubble.private import torch as private

from .. import tensor
from ..clock.device import SimDevice
from ..memory import pinning
from . import factories
from .dispatch import Dispatcher
from .features import (
    data_parallel,
    dlpack,
    generator,
    handles,
    lazy_layers,
    loading,
    moving_modules,
    unfused_flex,
)


def register(device: SimDevice) -> Dispatcher:
    """Registers sim with PyTorch, so that `torch.device("sim")` exists, and returns the dispatcher,
    which runs all of sim's operators. Call it once in each process."""
    private.setup_privateuseone_for_python_backend(
        "sim", backend_module=_device_module(device), device_guard=_DeviceGuard()
    )
    dispatcher = Dispatcher(device)
    tensor.connect(torch.device("sim", 0), dispatcher)
    factories.install(dispatcher)
    pinning.install(dispatcher.aside)
    generator.install()
    handles.install(device)
    loading.install(device)
    lazy_layers.install()
    moving_modules.install()
    dlpack.install()
    data_parallel.install()
    unfused_flex.install()
    backward_pass.install(device.streams.around_backward)
    _let_optimizers_take_foreach()
    return dispatcher


class _DeviceGuard(private.DeviceGuard):
    """The object that PyTorch calls to learn sim's device type, also when it restores a thread's
    stream while a Python error leaves a backward pass."""

    def type_(self) -> Any:
        """Returns the device type, and saves a pending Python error for the backward pass to raise.

        The caller is C++ that must not throw. With an error pending, every call into Python fails,
        and the process would be aborted.
        """
        try:
            _fails_if_an_error_is_pending()
        except SystemError as error:
            running = backward_pass.running_pass()
            if running is not None:
                running.lost = error.__cause__
        return _PRIVATE_USE_1


_fails_if_an_error_is_pending = partial(int)
_PRIVATE_USE_1 = private.DeviceType.PrivateUse1


def _let_optimizers_take_foreach() -> None:
    """Makes PyTorch's optimizers and `clip_grad_norm_` update all parameters in one kernel by
    default, as on CUDA. They do so if every parameter is of a class in two lists, to which this
    adds SimTensor."""
    private.foreach_types_of_optimizers.append(tensor.SimTensor)
    private.foreach_types_of_norms.append(tensor.SimTensor)


def _device_module(device: SimDevice) -> ModuleType:
    """Returns the module `torch.sim`, with the names that PyTorch looks up in a device's module."""
    module: Any = ModuleType("torch.sim")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.synchronize = lambda device_index=None: device.synchronize()
    module.current_stream = lambda device_index=None: torch.accelerator.current_stream()
    module.set_stream = lambda stream: torch.accelerator.set_stream(stream)
    module.stream = lambda stream: nullcontext() if stream is None else stream
    module.Stream = lambda device=None, priority=0: torch.Stream("sim")
    module.Event = lambda enable_timing=False, **options: torch.Event(
        "sim", enable_timing=enable_timing
    )
    module.manual_seed_all = module.manual_seed = lambda seed: None
    module.get_rng_state = lambda device_index=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device_index=None: torch.set_rng_state(state)
    module._is_in_bad_fork = lambda: False
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    return module
