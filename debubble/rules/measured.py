"""The operators that were measured on a GPU: those of the table, and those that launch one kernel
in the expressions of `assets/effects/`, and in programs that were measured beside them."""

from __future__ import annotations

from .operators import TABLE

ONE_KERNEL_EACH = """
__lshift__ __rshift__ _amp_foreach_non_finite_check_and_unscale _amp_update_scale _assert_async
_cdist_forward _cummax_helper _embedding_bag _embedding_bag_forward_only _foreach_add
_foreach_addcdiv _foreach_addcmul _foreach_div _foreach_lerp _foreach_mul _foreach_sqrt
_fused_adamw _jagged_to_padded_dense_forward _log_softmax _log_softmax_backward_data _logcumsumexp
_softmax abs add addcdiv addcmul amax amin aminmax argmax argmin atan2 avg_pool2d bernoulli
bitwise_and bitwise_not bitwise_or bitwise_xor bmm bucketize cauchy ceil clamp clamp_min complex
copysign cos div elu eq erf exp exponential fill flip floor floor_divide fmod frac gather gcd ge
gelu gelu_backward glu gt hardtanh heaviside hypot i0 index_select isnan kthvalue le leaky_relu
lerp lgamma linalg_cross linalg_vector_norm linspace log log_sigmoid_forward logaddexp logical_and
logical_not logspace lt max max_pool2d_with_indices maximum mean min minimum mish mul nan_to_num
nansum native_dropout ne neg nextafter nll_loss_forward norm poisson polar prod put random
reciprocal relu remainder roll round rsqrt searchsorted sigmoid sign silu sin softplus sqrt std
std_mean sub take tanh threshold threshold_backward trace tril tril_indices triu triu_indices trunc
uniform upsample_bilinear2d upsample_nearest2d var var_mean xlogy zero
"""
"""Names of operators that launch one kernel, without overload. An in-place operator is listed under
the name without its final underscore."""


def is_measured(name: str) -> bool:
    """True if the counts of an operator, such as `index.Tensor`, were seen on a GPU, with any
    overload."""
    return _base(name) in _KNOWN


def _base(name: str) -> str:
    packet = name.partition(".")[0]
    return packet if packet.endswith("__") else packet.removesuffix("_")


_KNOWN = {*ONE_KERNEL_EACH.split(), *map(_base, TABLE)}
