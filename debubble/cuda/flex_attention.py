"""FlexAttention on CUDA: PyTorch's, compiled on first use for every specialisation of a call."""

from __future__ import annotations

import os
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch

from ..contract.capture_error import CaptureError
from ..contract.flex.flex_call import FlexCall
from ..contract.host_syncs import allow_host_sync
from ..private.torch import compiler, validate_args
from .guard.modes import without_modes
from .trace.marks import marked

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


SPLITS, SPLITS_OF_A_BATCH = 32, 16
"""The numbers of programs that share the keys of a short query: of a single one, and of each one in
a batch. By default PyTorch takes more programs for few heads, and more than two kernels to combine
their results."""
STAGES = 3
"""The number of key blocks that a program of a short query loads ahead: while it computes with one
block, the next block numbers are looked up, and their keys arrive."""


TRITON_FOLDER = "TRITON_CACHE_DIR"
"""The variable that names the folder in which Triton keeps compiled kernels."""


class _Prepared(NamedTuple):
    """A checked call's mask, specialisation, scale and kernel options, which serve the next calls
    that look the same. They keep no tensor of the call alive."""

    block_mask: weakref.ref[BlockMask]
    looks: Hashable
    specialisation: Hashable
    scale: float
    options: dict[str, object]
    is_batch: bool
    would_compile: str

    @classmethod
    def of(cls, call: FlexCall, block_mask: BlockMask, looks: Hashable) -> _Prepared:
        return cls(
            weakref.ref(block_mask),
            looks,
            call.specialisation(),
            call.scale,
            _options(call),
            call.is_batch,
            call.would_compile(),
        )


class CudaFlexAttention:
    """Calls FlexAttention through one compiled function for each specialisation of a call.

    A single function for all calls would work until PyTorch has compiled it eight times: then
    PyTorch gives up.
    """

    def __init__(
        self,
        is_capturing: Callable[[], bool] = torch.cuda.is_current_stream_capturing,
        backend: str = "inductor",
        device: str = "cuda",
    ) -> None:
        self.compilations = 0
        self._is_capturing, self._backend, self._device = is_capturing, backend, device
        self._compiled: dict[Hashable, Callable[..., torch.Tensor]] = {}
        self._last: _Prepared | None = None
        """The last prepared call. The layers of a step call with the same mask and similar tensors,
        so the preparation for the first layer, which takes longer than a launch, serves all of
        them."""

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        block_mask: BlockMask,
        scale: float | None,
    ) -> torch.Tensor:
        looks = (_look(query), _look(key), _look(value), scale, torch.is_inference_mode_enabled())
        prepared = self._last
        if prepared is None or prepared.block_mask() is not block_mask or prepared.looks != looks:
            call = FlexCall.of(self._device, query, key, value, block_mask, scale)
            prepared = _Prepared.of(call, block_mask, looks)
        out = self._run(prepared, query, key, value, block_mask)
        self._last = prepared
        return out

    def _run(
        self,
        prepared: _Prepared,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        block_mask: BlockMask,
    ) -> torch.Tensor:
        compiled, capturing = self._compiled.get(prepared.specialisation), self._is_capturing()
        if compiled is None and capturing:
            raise CaptureError(prepared.would_compile)
        with marked(), without_modes(), torch.no_grad(), ExitStack() as stack:
            counters = compiler().counters
            if compiled is None:
                stack.enter_context(_compiling())
                compiled = self._compile(any_sizes=not prepared.is_batch)
            if capturing:
                stack.enter_context(_never_compiling(prepared.would_compile))
            before = counters["stats"]["unique_graphs"]
            try:
                out = compiled(query, key, value, block_mask, prepared.scale, prepared.options)
            finally:
                self.compilations += counters["stats"]["unique_graphs"] - before
        self._compiled[prepared.specialisation] = compiled
        return out

    def _compile(self, any_sizes: bool) -> Callable[..., torch.Tensor]:
        function = _with_code_of_its_own(_attention)
        return torch.compile(function, fullgraph=True, dynamic=any_sizes, backend=self._backend)


def _attention(query, key, value, block_mask, scale, kernel_options):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(
        query,
        key,
        value,
        block_mask=block_mask,
        scale=scale,
        enable_gqa=True,
        kernel_options=kernel_options,
    )


def _look(tensor: torch.Tensor) -> Hashable:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def _options(call: FlexCall) -> dict[str, object]:
    """Returns the kernel options of a call: tiles that divide the blocks of the mask, where
    PyTorch's default is 128, and how keys are split."""
    rows, columns = call.tile
    splits = SPLITS_OF_A_BATCH if call.is_batch else SPLITS
    options: dict[str, object] = {"BLOCK_M": rows, "BLOCK_N": columns, "SPLIT_KV": splits}
    if not call.may_split:
        options["FORCE_USE_FLEX_ATTENTION"] = True
    elif call.splits:
        options["num_stages"] = STAGES
    return options


def _with_code_of_its_own(function: Callable[..., torch.Tensor]) -> types.FunctionType:
    """Returns a copy of the function with its own code object: PyTorch stores compiled code, and
    counts compilations, by code object."""
    code = function.__code__.replace()
    return types.FunctionType(code, function.__globals__, function.__name__)


@contextmanager
def _compiling() -> Iterator[None]:
    """Sets PyTorch up to compile in the block: for sizes in general, even if two are equal by
    chance, and for the scale as a constant. Lets the host wait. Restores what PyTorch changes in
    the whole process when it compiles: the argument checks of distributions, and Triton's folder.
    PyTorch sets the folder if it prepares a kernel in this process, as a program's second start
    does, and not if a worker process compiles it, as in the first: kernels that are compiled later
    would lie in one folder and be looked for in the other."""
    validate = validate_args.value
    shapes = compiler().shapes.patch(use_duck_shape=False)
    constants = compiler().config.patch(specialize_float=True)
    try:
        with allow_host_sync(), shapes, constants, _triton_folder_kept():
            yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(validate)


@contextmanager
def _triton_folder_kept() -> Iterator[None]:
    before = os.environ.get(TRITON_FOLDER)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(TRITON_FOLDER, None)
        else:
            os.environ[TRITON_FOLDER] = before


@contextmanager
def _never_compiling(would_compile: str) -> Iterator[None]:
    """Raises CaptureError with this text if a call in the block would be compiled again, for an
    unforeseen reason."""
    try:
        with torch.compiler.set_stance("fail_on_recompile"):
            yield
    except RuntimeError as error:
        if "fail_on_recompile" not in str(error):
            raise
        raise CaptureError(would_compile) from error
