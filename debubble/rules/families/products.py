"""Matrix products, convolutions and normalisation."""

from __future__ import annotations

import torch

from ..effects import COPIED_FIRST, ONE_KERNEL, Effects, kernels

HALVES = (torch.float16, torch.bfloat16)


TILE = 128
"""The rows and columns of the result that one block of a large product computes."""
TILES = 64
"""The number of result tiles that keep the device busy without splitting the inner dimension: 1024
x 1024 is one kernel on an H100 and an H200, and smaller results were measured as two."""
SPLIT_FROM = 128
"""The smallest inner dimension at which a product in fp32 with a small result is split."""
FEW_ROWS = 16
"""The most rows for which a library takes a kernel for narrow matrices."""
SMALL_LAYER = 1 << 21
"""The number of multiplications below which a linear layer in fp32 takes three kernels."""
LONG_FOR_A_TILE = 170
"""The inner dimension for each tile of the result from which on a linear layer in fp32 is split."""


def product(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of a matrix product: one kernel, or two if a small result with a long
    inner dimension is split over the device and its parts are summed."""
    first, second = args[-2:]
    rows, inner = first.shape[-2:]
    if second.dtype in HALVES:
        return kernels(1 + (rows <= FEW_ROWS and inner >= 4096))
    if second.dtype != torch.float32 or not _is_small(rows, second.shape[-1]):
        return ONE_KERNEL
    tall = rows > FEW_ROWS and _is_transposed(second)
    return kernels(1 + (inner >= SPLIT_FROM or tall))


def dot(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of a dot product: two kernels, or a copy of a zero from the host for
    vectors without elements."""
    return Effects(kernels=2) if args[0].numel() else Effects(staged_uploads=1, kernels=0)


def addmm(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `addmm`: a dense bias vector is added inside the library's product,
    and a bias matrix is copied into the result first."""
    bias, first, second = args[:3]
    if not bias.is_contiguous():
        return Effects(kernels=2)
    if bias.dim() > 1:
        return COPIED_FIRST
    if second.dtype != torch.float32:
        return product(args, kwargs)
    rows, inner = first.shape
    columns = second.shape[1]
    if columns > 1 and not _is_transposed(second):
        return ONE_KERNEL
    return kernels(_of_a_linear_layer(rows, columns, inner))


def _of_a_linear_layer(rows: int, columns: int, inner: int) -> int:
    """Returns the number of kernels of a linear layer in fp32. The rule is right for 85 of 99
    layers that were measured on an H100."""
    if columns == 1:
        return 2
    if rows <= FEW_ROWS:
        return 1
    if rows * inner * columns < SMALL_LAYER:
        return 3
    return 1 + (inner >= LONG_FOR_A_TILE * _tiles(rows, columns))


def _tiles(rows: int, columns: int) -> int:
    return -(-rows // TILE) * -(-columns // TILE)


def _is_small(rows: int, columns: int) -> bool:
    return _tiles(rows, columns) < TILES


def _is_transposed(factor: torch.Tensor) -> bool:
    """Returns True for the transposed view of a dense matrix, such as the weight in a linear
    layer's product."""
    return factor.dim() == 2 and factor.stride(0) == 1 and not factor.is_contiguous()


def normalisation(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of layer norm or RMS norm: one kernel if the row length is a multiple of
    four, so that vectors of four can be read, else two."""
    return kernels(1 if args[0].shape[-1] % 4 == 0 else 2)


def normalisation_backward(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of the gradient of layer norm or RMS norm: a kernel for the input, and
    one for weight and bias together."""
    of_input, *of_parameters = args[-1]
    return Effects(kernels=int(of_input) + any(of_parameters))


def batch_normalisation(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of batch norm: one kernel of cuDNN for data of three or more dimensions
    with fp32 weights, unless the data is bf16; else three kernels in training, and otherwise a copy
    and two kernels."""
    if _is_cudnns(args[0], args[1]):
        return ONE_KERNEL
    return Effects(kernels=3) if args[5] else Effects(d2d=1, kernels=2)


def batch_normalisation_backward(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=1 if _is_cudnns(args[1], args[2]) else 2)


def _is_cudnns(data: torch.Tensor, weight: torch.Tensor | None) -> bool:
    exact = data.dtype != torch.bfloat16 and weight is not None and weight.dtype == torch.float32
    return exact and data.dim() >= 3


def convolution(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of a convolution: one kernel, one for a bias, and one that reorders the
    weights if the image has its channels last and they don't."""
    image, weight, bias = args[:3]
    reorders = _channels_last(image) and not _channels_last(weight)
    return Effects(kernels=1 + (bias is not None) + reorders)


def _channels_last(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    is_plain = tensor.is_contiguous() or tensor.dim() not in formats
    return not is_plain and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def convolution_backward(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of a convolution's gradient: a kernel for each of image, weight and bias
    that requires one."""
    return Effects(kernels=sum(args[-1]))
