"""Describes a call of an operator by what its time on a GPU depends on: kind, types and sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .choices import of_choice
from .shaped import Configuration, Shaped, count, dtype_of, layout_of, tensors_in

PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}
"""Matrix products, with the position of their first factor."""
NORMALISATIONS = {
    "native_layer_norm",
    "native_layer_norm_backward",
    "_fused_rms_norm",
    "_fused_rms_norm_backward",
}
ALONG_A_DIMENSION = {
    *NORMALISATIONS,
    *("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "var", "var_mean", "std"),
    *("std_mean", "any", "all", "prod", "logsumexp", "norm", "linalg_vector_norm", "_softmax"),
    *("_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "cumsum", "cumprod"),
    *("cummax", "cummin", "logcumsumexp", "median", "nanmedian", "mode", "kthvalue", "nansum"),
    *("count_nonzero", "aminmax"),
}
"""Operators whose time depends on the length of what they reduce or scan."""
AFTER_A_NUMBER = {"norm", "linalg_vector_norm", "kthvalue"}
"""Operators whose first argument after the tensor is a number and no dimension."""
PARTS = {
    "_cummax_helper": "cummax",
    "_cummin_helper": "cummin",
    "_logcumsumexp": "logcumsumexp",
}
"""The operators that PyTorch calls on sim, with the names of those that contain them on a GPU."""
IS_CAUSAL = {
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_scaled_dot_product_flash_attention_backward": 11,
    "_scaled_dot_product_efficient_attention_backward": 11,
    "_scaled_dot_product_cudnn_attention_backward": 14,
}
"""The position of `is_causal` in the operators that CUDA has for attention."""
RECURRENT = {"lstm": "lstm", "gru": "gru", "_cudnn_rnn": "", "_cudnn_rnn_backward": ""}
"""Operators with a recurrent layer, and its kind where the name says it."""
LSTM = 2
"""The number of an LSTM among cuDNN's recurrent layers."""
CUDNN_MODE = {"_cudnn_rnn": 6, "_cudnn_rnn_backward": 10}
"""The position of the number that says which recurrent layer cuDNN runs."""


def configuration(
    name: str, args: Sequence[object], results: Sequence[Shaped]
) -> Configuration | None:
    """Describes the call of the ATen operator `name`, such as "add.Tensor", with these arguments
    and result tensors. Returns None for a call without tensors."""
    base, _, overload = name.partition(".")
    chosen = of_choice(base, args, results)
    if chosen is not None:
        return chosen
    base = PARTS.get(base) or (base if base.startswith("_") else base.removesuffix("_"))
    inputs = list(tensors_in(args))
    if not inputs and not results:
        return None
    first = (inputs or results)[0]
    dtype = dtype_of(first)
    if base.startswith("native_batch_norm") and dtype == "float32" and len(first.shape) == 4:
        base = base.replace("native", "cudnn")
    if base in PRODUCTS:
        return _product(base, dtype, *args[PRODUCTS[base] : PRODUCTS[base] + 2])
    if base in ("convolution", "convolution_backward"):
        return _convolution(base, dtype, args, results)
    if "scaled_dot_product" in base:
        return _attention(base, name.endswith("backward"), dtype, inputs, args)
    if base in RECURRENT:
        return _recurrent(base, name.endswith("backward"), dtype, inputs, args)
    if base.startswith("_foreach") or base.startswith("_fused_ad"):
        return _lists(base, overload, dtype, args[0])
    if "batch_norm" in base or "group_norm" in base:
        return _over_channels(base, dtype, inputs, args)
    if base in ALONG_A_DIMENSION:
        return _along_a_dimension(base, dtype, inputs, args)
    return _plain(base, dtype, inputs, results)


def _product(base: str, dtype: str, a: Any, b: Any) -> Configuration:
    *batch, rows, inner = a.shape
    columns = b.shape[-1]
    second = "n" if b.stride()[-1] == 1 and columns > 1 else "t"
    if base in ("bmm", "baddbmm"):
        kinds = [f"bmm {dtype} {second}", f"bmm {dtype}"]
        return Configuration(kinds, (*batch, rows, columns, inner), (1, 1, 1, 1))
    first = "n" if a.stride()[-1] == 1 or inner == 1 else "t"
    kinds = [f"{base} {dtype} {first}{second}", f"{base} {dtype}", f"mm {dtype}"]
    return Configuration(kinds, (rows, columns, inner), (1, 1, 1))


def _convolution(base: str, dtype: str, args: Sequence, results: Sequence[Shaped]) -> Configuration:
    is_backward = base.endswith("backward")
    x, weight = args[1:3] if is_backward else args[:2]
    out = args[0] if is_backward else results[0]
    transposed, _, groups = args[7:10] if is_backward else args[6:9]
    way = ("transposed " if transposed else "") + ("grouped " if groups > 1 else "")
    wanted = "".join("ny"[bool(each)] for each in args[10]) if is_backward else ""
    kinds = [f"{base} {dtype} {way}{wanted}", f"{base} {dtype} {way}", f"{base} {dtype}", base]
    sizes = (
        out.shape[0],
        math.prod(out.shape[2:]),
        x.shape[1],
        weight.shape[0],
        math.prod(weight.shape[2:]),
        math.prod(x.shape[2:]),
    )
    return Configuration(kinds, sizes, (1,) * 6)


def _attention(
    called: str, is_backward: bool, dtype: str, inputs: list[Shaped], args: Sequence
) -> Configuration | None:
    four = [tensor for tensor in inputs if len(tensor.shape) == 4]
    if len(four) < 2:
        return None
    query, key = four[1:3] if is_backward and called in IS_CAUSAL else four[:2]
    if called in IS_CAUSAL:
        is_causal = any(value is True for value in args[IS_CAUSAL[called] :][:1])
    else:
        is_causal = any(value is True for value in args)
    way = "causal" if is_causal else "all"
    base = "attention_backward" if is_backward else "attention"
    batch, heads, length, width = query.shape
    kinds = [f"{base} {dtype} {way}", f"{base} {dtype}", base]
    return Configuration(kinds, (batch * heads, length, key.shape[2], width), (1, 1, 1, 1))


def _recurrent(
    called: str, is_backward: bool, dtype: str, inputs: list[Shaped], args: Sequence
) -> Configuration | None:
    """Describes an LSTM or GRU by steps, batch, width of the input, width of the state, and number
    of layers and directions."""
    three = [tensor for tensor in inputs if len(tensor.shape) == 3]
    if len(three) < 2:
        return None
    kind = RECURRENT[called] or ("lstm" if args[CUDNN_MODE[called]] == LSTM else "gru")
    base = f"{kind}_backward" if is_backward else kind
    first, (layers, batch, state) = three[0], three[1].shape
    width = first.shape[-1]
    steps = count(first) // max(1, batch * width)
    kinds = [f"{base} {dtype}", base, "recurrent_backward" if is_backward else "recurrent"]
    return Configuration(kinds, (steps, batch, width, state, layers), (1,) * 5)


CHUNK = 65536
"""The number of elements that a block of a kernel over lists of tensors handles."""


def _lists(base: str, overload: str, dtype: str, tensors: Any) -> Configuration:
    counts = [count(tensor) for tensor in tensors_in(tensors)] or [1]
    sizes = (len(counts), sum(counts), min(CHUNK, max(counts)))
    kinds = [f"{base} {overload} {dtype}", f"{base} {dtype}", base, "_foreach"]
    return Configuration(kinds, sizes, (1, 1, 2))


def _along_a_dimension(
    base: str, dtype: str, inputs: list[Shaped], args: Sequence
) -> Configuration:
    shape = tuple(inputs[0].shape)
    others = args[2:] if base in AFTER_A_NUMBER else args[1:]
    chosen = next((value for value in others if _is_dimensions(value)), None)
    if base in NORMALISATIONS and chosen is not None:
        chosen = list(range(len(shape) - len(chosen), len(shape)))
    layout = layout_of(inputs, together=True)
    if chosen is None or chosen == [] or not shape:
        way, length = "all", math.prod(shape)
    else:
        places = {place % len(shape) for place in ([chosen] if isinstance(chosen, int) else chosen)}
        way = "inner" if len(shape) - 1 in places else "outer"
        length = math.prod(shape[place] for place in places)
    kinds = [f"{base} {dtype} {way} {layout}", f"{base} {way} {layout}", f"{base} {dtype}", base]
    return Configuration(kinds, (math.prod(shape), length), (1, 1))


def _over_channels(
    base: str, dtype: str, inputs: list[Shaped], args: Sequence
) -> Configuration | None:
    first = inputs[0]
    if len(first.shape) < 2:
        return None
    trains = "training" if args and any(value is True for value in args) else "using"
    kinds = [f"{base} {dtype} {trains}", f"{base} {trains}", base]
    sizes = (first.shape[0], first.shape[1], math.prod(first.shape[2:]))
    return Configuration(kinds, sizes, (1, 1, 1))


def _is_dimensions(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, int) for item in value)
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(base: str, dtype: str, inputs: list[Shaped], results: Sequence[Shaped]) -> Configuration:
    out = sum(map(count, results))
    largest = max(map(count, inputs), default=0)
    first = (inputs or results)[0]
    layout = layout_of(inputs, together=base not in ("cat", "stack"))
    other = ""
    if base in ("_to_copy", "copy"):
        of = inputs[1:2] if base == "copy" else list(results)
        other = f" {dtype_of(of[0])}" if of else ""
    kinds = [
        f"{base} {len(inputs)} {dtype} {layout}{other}",
        f"{base} {len(inputs)} {layout}{other}",
        f"{base} {layout}",
        base,
        f"any {layout}",
    ]
    last = first.shape[-1] if len(first.shape) else 1
    return Configuration(kinds, (out, largest, last), (1, 1, 0.5))
