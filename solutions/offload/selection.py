"""Selects who copies a list of pieces, the DMA engine or a kernel, by times measured on this
GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Protocol

import torch

from debubble.accelerator import current
from debubble.contract.packages.triton_mode import is_there as triton_is_there

from .choice.crossover import Crossover
from .choice.presets import Preset
from .dma import submit_copies
from .paths.descriptors import WORD, Columns, Descriptors, next_power_of_2

try:
    from .choice.upstream_scheme import swap_with_preset
    from .swap_blocks import Launch, copy_by_kernel, launch_swap
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise

Sizes = torch.Tensor | Sequence[int]


class SwapBlocks(Protocol):
    name: str

    def __call__(
        self, src_addrs: torch.Tensor, dst_addrs: torch.Tensor, sizes: torch.Tensor
    ) -> None:
        """Copies sizes[i] bytes from address src_addrs[i] to dst_addrs[i], each a CPU int64 tensor
        [N], on the current stream, which can't be the default one. Leave pinned descriptors
        unchanged until the copies are done.

        Nothing is checked, since checking each copy would take the host longer than everything
        else. The caller made the descriptors and ensures that they are right; `swap_blocks_batch`
        and `copy_batch` do check them.
        """

    def path_for(self, sizes: Sizes) -> str:
        """Returns the name of the path that copies a list of pieces with these sizes, in bytes, if
        none of them are adjacent."""

    def warm_up(self) -> None:
        """Compiles the kernels that a call may need, by copies within memory of its own, and waits
        for them."""


def _select_swap_blocks_fn(
    page_sizes: Sequence[int],
    *,
    gpu_to_cpu: bool,
    crossover: Crossover | None = None,
    preset: Preset | None = None,
) -> SwapBlocks:
    """Selects the swap for blocks with pages of these sizes, in bytes; called once per handler
    (vLLM #42212).

    The DMA engine copies if no kernel can: from GPU to CPU, without Triton or pinned memory, and if
    a page is no multiple of 8 bytes. With a `preset` its threshold decides. Otherwise each call
    takes the path that was the fastest for as many pieces of their mean size, according to
    `crossover`, by default that of this GPU. Raises ValueError for no pages and for pages without
    bytes.
    """
    if not page_sizes or min(page_sizes) < 1:
        raise ValueError(f"pages of {list(page_sizes)} bytes: there has to be one, none without")
    largest = max(page_sizes)
    has_odd_page = any(page % WORD for page in page_sizes)
    if gpu_to_cpu or has_odd_page or not triton_is_there() or not current().pin_memory:
        return DmaSwap(any_order=not gpu_to_cpu)
    if preset is None:
        crossover = crossover or Crossover.for_accelerator(current())
        return CalibratedSwap(crossover, Launch.for_pieces(largest))
    if largest >= preset.threshold_bytes:
        return DmaSwap(any_order=True)
    chunk = min(next_power_of_2(largest), preset.bytes_per_chunk)
    return PresetSwap(replace(preset, bytes_per_chunk=chunk))


@dataclass(frozen=True)
class DmaSwap:
    """A swap that copies every list as a batch of the copy engine."""

    any_order: bool
    """True if the engine may read sources before earlier work of the stream is done."""
    name = "dma"

    def __call__(
        self, src_addrs: torch.Tensor, dst_addrs: torch.Tensor, sizes: torch.Tensor
    ) -> None:
        descriptors = Descriptors.of(src_addrs, dst_addrs, sizes)
        submit_copies(current(), descriptors, any_order=self.any_order)

    def path_for(self, sizes: Sizes) -> str:
        return "dma"

    def warm_up(self) -> None:
        """Does nothing: the copy engine has no kernel to compile."""


@dataclass(frozen=True)
class PresetSwap:
    """A swap that decides as upstream does: the copy engine copies lists of fewer than
    `preset.min_n` pieces, and upstream's kernel copies longer lists. Use it for pages below the
    preset's threshold."""

    preset: Preset
    name = "preset"

    def __call__(
        self, src_addrs: torch.Tensor, dst_addrs: torch.Tensor, sizes: torch.Tensor
    ) -> None:
        swap_with_preset(src_addrs, dst_addrs, sizes, self.preset)

    def path_for(self, sizes: Sizes) -> str:
        return "dma" if len(sizes) < self.preset.min_n else "job_kernel"

    def warm_up(self) -> None:
        everywhere = replace(self.preset, min_n=0)
        copy_own_bytes(lambda src, dst, sizes: swap_with_preset(src, dst, sizes, everywhere))


@dataclass(frozen=True)
class CalibratedSwap:
    """A swap that copies each list by the path that was measured to be the fastest for a list of as
    many pieces of the same mean size: by the copy engine, or by the kernel with the settings in
    `launch`."""

    crossover: Crossover
    launch: Launch
    name = "calibrated"

    def __call__(
        self, src_addrs: torch.Tensor, dst_addrs: torch.Tensor, sizes: torch.Tensor
    ) -> None:
        descriptors = Descriptors.of(src_addrs, dst_addrs, sizes)
        count = len(descriptors)
        if count:
            path = self._best(descriptors.extent.total / count, count)
            copy_along(path, (src_addrs, dst_addrs, sizes), descriptors, self.launch)

    @cached_property
    def _best(self) -> Callable[[float, int], str]:
        """`crossover.best` with a cache of its results, since lists of equal sizes come again and
        again."""
        return lru_cache(maxsize=4096)(self.crossover.best)

    def path_for(self, sizes: Sizes) -> str:
        if len(sizes) == 0:
            return "dma"
        mean = torch.as_tensor(sizes, dtype=torch.float64).mean().item()
        return self.crossover.best(mean, len(sizes))

    def warm_up(self) -> None:
        copy_own_bytes(lambda src, dst, sizes: launch_swap(current(), src, dst, sizes, self.launch))


def copy_along(path: str, columns: Columns, descriptors: Descriptors, how: Launch) -> None:
    """Copies pieces from pinned host memory to the device by `path`, one of PATHS; `columns` are
    the tensors of `descriptors`. Lists that no kernel can copy, with a size or an address that is
    no multiple of 8, are left to the DMA engine."""
    if path == "dma" or not descriptors.are_multiples(WORD):
        submit_copies(current(), descriptors, any_order=True)
    else:
        copy_by_kernel(current(), columns, descriptors, how)


def copy_own_bytes(copy: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]) -> None:
    """Calls `copy` to compile its kernel, with pieces of memory allocated here: once for addresses
    that are multiples of 16, once for addresses that are only multiples of 8."""
    accelerator = current()
    host, table = (
        torch.zeros(size, dtype=torch.int64, pin_memory=accelerator.pin_memory) for size in (4, 6)
    )
    device = torch.zeros(4, dtype=torch.int64, device=accelerator.device)
    for start, nbytes, columns in zip((0, 24), (16, 8), table.view(2, 3, 1), strict=True):
        columns[:, 0] = torch.tensor([host.data_ptr() + start, device.data_ptr() + start, nbytes])
        copy(*columns)
    accelerator.current_stream().synchronize()
