"""Sorting, the largest elements, draws without replacement, and operators that sort indices."""

from __future__ import annotations

import torch

from ...clock.choices import LEFT_UNSORTED, LONGEST_SMALL_ROW
from ..effects import Effects

BITS_OF_A_PASS = 8
"""Bits by which a radix sort orders all elements in one pass, each of which is a kernel."""
BITS_OF_A_SEGMENTED_PASS = 6
"""The same where many rows are sorted at once."""
FEWEST_SEGMENTS = 128
"""The number of long rows from which on all are sorted at once, each by itself."""
SHARED_FROM = {
    1: 20_000,
    21: 10_000,
    41: 8000,
    80: 5000,
    200: 3000,
    800: 800,
    4001: 400,
}
"""The length of a row from which on several blocks share it in `topk`, by the number of rows from
which on it holds (PyTorch's rule; on the H200 seen for 1 to 8, 64, 128, 512 and 1000 rows)."""


def radix_kernels(elements: int, bits: int, key_bytes: int) -> int:
    """Returns the kernels of a library's radix sort of so many elements by `bits` bits of each:
    one if a block of threads has room for all, else one for a histogram, one for its sums, and one
    a pass."""
    in_one_block = 256 * min(38, 76 // key_bytes)
    return 1 if elements <= in_one_block else 2 + passes(bits, BITS_OF_A_PASS)


def passes(bits: int, bits_of_a_pass: int) -> int:
    return -(-bits // bits_of_a_pass)


def sort(args: tuple, kwargs: dict) -> Effects:
    tensor = args[0]
    bits = 8 * tensor.element_size()
    length = tensor.size(dimension_of(args, kwargs)) if tensor.dim() else 1
    if tensor.numel() <= 1:
        return Effects(d2d=3, kernels=1) if tensor.dim() else Effects(d2d=1, kernels=0)
    one_row = tensor.numel() == length
    if length <= LONGEST_SMALL_ROW:
        return Effects(d2d=3, kernels=2) if one_row else Effects(d2d=2, kernels=3)
    if one_row:
        return Effects(d2d=1, kernels=3 + passes(bits, BITS_OF_A_PASS))
    if tensor.numel() >= FEWEST_SEGMENTS * length:
        return Effects(d2d=1, kernels=1 + passes(bits, BITS_OF_A_SEGMENTED_PASS))
    rows = passes((tensor.numel() // length - 1).bit_length(), BITS_OF_A_PASS)
    return Effects(d2d=1, kernels=6 + passes(bits, BITS_OF_A_PASS) + rows)


def dimension_of(args: tuple, kwargs: dict) -> int:
    integers = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    return integers[0] if integers else kwargs.get("dim", -1)


def topk(args: tuple, kwargs: dict) -> Effects:
    in_order = args[4] if len(args) > 4 else kwargs.get("sorted", True)
    dimension = args[2] if len(args) > 2 else kwargs.get("dim", -1)
    return Effects(
        kernels=_kernels_to_find(args[0], args[1], dimension) + (in_order and args[1] > 1)
    )


def _kernels_to_find(tensor: torch.Tensor, number: int, dimension: int) -> int:
    """Returns the kernels that find the `number` largest elements, without those that order
    them."""
    length = tensor.size(dimension) if tensor.dim() else 1
    rows = tensor.numel() // max(1, length)
    shared_from = next(
        (SHARED_FROM[fewest] for fewest in reversed(SHARED_FROM) if rows >= fewest), 1
    )
    if length < shared_from:
        return 1
    return 7 + 3 * passes(8 * tensor.element_size(), BITS_OF_A_PASS)


def multinomial(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `multinomial`: the probabilities are checked on the device, and the
    largest of their quotients with random numbers are drawn."""
    weights, draws = args[:2]
    replacement = args[2] if len(args) > 2 else kwargs.get("replacement", False)
    one_row = weights.dim() == 2 and weights.size(0) == 1
    if replacement and draws > 1:
        return Effects(d2d=2, kernels=3 + one_row)
    largest = 1 if draws == 1 else _kernels_to_find(weights, draws, -1) + 1
    return Effects(d2d=int(one_row), kernels=13 - one_row + largest)


def permutation(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=5 if args[0] < 30000 else 11)


CHECKS = 6
"""The kernels that look for a tensor's smallest and largest index, and compare both."""


def embedding_backward(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of an embedding's gradient: a kernel writes zeros and one adds the rows
    that were looked up; more than `LEFT_UNSORTED` indices are sorted first."""
    indices, by_frequency = args[1], args[4]
    if indices.numel() <= LEFT_UNSORTED and not by_frequency:
        return Effects(kernels=2)
    return bags_backward(args, kwargs)


def bags_backward(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of the gradient of an embedding's bags: the indices are sorted."""
    return Effects(kernels=11 + radix_kernels(args[1].numel(), 64, 8))


def kernels_to_accumulate(
    target: torch.Tensor, indices: int, dimensions: int, is_checked: bool
) -> int:
    """Returns the kernels that check `indices` indices into the first `dimensions` dimensions of
    `target`, sort them, and add a value at each. Gradients leave the check out."""
    places = max(1, target.shape[:dimensions].numel())
    of_indices = (3 + CHECKS * is_checked) * max(1, dimensions)
    return 2 + of_indices + radix_kernels(indices, (places - 1).bit_length(), 8)
