"""The dtypes that an operator takes only on CUDA or only on the CPU.

The keys are operator names without overloads. Both tables were collected from PyTorch's own
database of operators, which says what PyTorch's tests expect of each device.
"""

from __future__ import annotations

HALVES = ("float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
_WITH_COMPLEX_HALVES = (
    *("acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "cos", "cosh", "div"),
    *("exp", "lerp", "log", "logaddexp", "pow", "prod", "rsqrt", "sigmoid"),
    *("sigmoid_backward", "sin", "sinh", "sqrt", "sum", "tan", "tanh", "tanh_backward"),
    *("_fft_c2c", "_fft_c2r"),
)
_WITH_HALVES = (
    *("_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa_backward", "avg_pool3d"),
    *("avg_pool3d_backward", "multi_margin_loss", "multi_margin_loss_backward"),
    *("multilabel_margin_loss_forward", "multilabel_margin_loss_backward"),
)
ONLY_ON_CUDA: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_WITH_COMPLEX_HALVES, ("complex32",)),
    **dict.fromkeys(_WITH_HALVES, HALVES),
    "_fft_r2c": ("float16",),
    "abs": ("bool",),
    "trace": ("bool", "complex32"),
    "rrelu_with_noise": ("float16",),
}
ONLY_ON_CPU: dict[str, tuple[str, ...]] = {
    "avg_pool2d": ("int64",),
    "avg_pool3d": ("int64",),
    "upsample_bilinear2d": ("uint8",),
    "upsample_bicubic2d": ("uint8",),
    "_upsample_bilinear2d_aa": ("uint8",),
    "_upsample_bicubic2d_aa": ("uint8",),
    "max_pool2d_with_indices": INTEGERS,
    "max_pool3d_with_indices": INTEGERS,
    "igamma": HALVES,
    "igammac": HALVES,
    "angle": HALVES,
    "histc": HALVES,
    "native_dropout_backward": ("bool", *INTEGERS),
    "linalg_vector_norm": ("complex32",),
    "norm": ("complex32",),
    "_scaled_mm": ("float8_e4m3fnuz", "float8_e5m2fnuz"),
    "_scaled_mm_v2": ("float8_e4m3fnuz", "float8_e5m2fnuz"),
}
ABSENT_ON_CUDA = ("histogram", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts")
