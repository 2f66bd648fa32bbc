"""PyTorch's private names. Those of the compiler are bound when they are first used, because its
import takes seconds."""

from __future__ import annotations

from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..contract.packages.pytorch import PyTorchNeeded, need_pytorch
from . import Names, Place

VERSION = need_pytorch(__name__).__version__
NAMES = Names("PyTorch", VERSION, "2.11 to 2.15", partial(PyTorchNeeded, "debubble"))
bind, getter, place = NAMES.bind, NAMES.getter, NAMES.place

# Modes: what sees each operator, or each call.
if TYPE_CHECKING:
    from torch._ops import OpOverload as OpOverload
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
else:
    OpOverload = bind("torch._ops:OpOverload")
    TorchDispatchMode = bind("torch.utils._python_dispatch:TorchDispatchMode")
disable_current_modes = bind("torch.utils._python_dispatch:_disable_current_modes")
len_torch_dispatch_stack = bind("torch._C:_len_torch_dispatch_stack")
len_torch_function_stack = bind("torch._C:_len_torch_function_stack")
get_dispatch_stack_at = bind("torch._C:_get_dispatch_stack_at")
get_current_function_mode_stack = bind("torch.overrides:_get_current_function_mode_stack")
pop_mode, push_mode = bind("torch.overrides:_pop_mode"), bind("torch.overrides:_push_mode")

# Operators.
schema = getter("torch:ops.aten.add.Tensor._schema")
overload_name = getter("torch:ops.aten.add.Tensor._overloadname")
op_name = getter("torch:ops.aten.add.Tensor._opname")
op = getter("torch:ops.aten.add.Tensor._op")
op_dk = getter("torch:ops.aten.add.Tensor._op_dk")
index_put_impl = bind("torch:ops.aten._index_put_impl_")
nested_tensor_from_mask_left_aligned = bind("torch:ops.aten._nested_tensor_from_mask_left_aligned")
scaled_dot_product_attention_math = bind("torch:ops.aten._scaled_dot_product_attention_math")
sparse_coo_tensor_with_dims = bind("torch:ops.aten._sparse_coo_tensor_with_dims")
sparse_coo_tensor_with_dims_and_tensors = bind(
    "torch:ops.aten._sparse_coo_tensor_with_dims_and_tensors"
)
to_copy = bind("torch:ops.aten._to_copy")
to_sparse = bind("torch:ops.aten._to_sparse")

device_sleep = bind("torch.cuda:_sleep")

# The dispatcher, PyTorch's C++ module, and a device that is written in Python.
core = bind("torch:_C")
DeviceGuard = bind("torch._C:_acc.DeviceGuard")
DeviceType = bind("torch._C:_autograd.DeviceType")
DispatchKey = bind("torch._C:DispatchKey")
DispatchKeySet = bind("torch._C:DispatchKeySet")
AutoDispatchBelowAutograd = bind("torch._C:_AutoDispatchBelowAutograd")
ForceDispatchKeyGuard = bind("torch._C:_ForceDispatchKeyGuard")
dispatch_has_kernel_for_dispatch_key = bind("torch._C:_dispatch_has_kernel_for_dispatch_key")
dispatch_tls_local_exclude_set = bind("torch._C:_dispatch_tls_local_exclude_set")
dispatch_tls_local_include_set = bind("torch._C:_dispatch_tls_local_include_set")
should_allow_numbers_as_tensors = bind("torch._C:_should_allow_numbers_as_tensors")
destroy_library = bind("torch.library:Library._destroy")
find_builtin = bind("torch.jit._builtins:_find_builtin")
register_builtin = bind("torch.jit._builtins:_register_builtin")
foreach_types_of_optimizers = bind("torch.optim.optimizer:_foreach_supported_types")
foreach_types_of_norms = bind("torch.utils._foreach_utils:_foreach_supported_types")
setup_privateuseone_for_python_backend = bind(
    "torch.utils.backend_registration:_setup_privateuseone_for_python_backend"
)

# Tensors, and the generators and modules that hold them.
disabled_torch_function_impl = bind("torch._C:_disabled_torch_function_impl")
make_subclass = bind("torch:Tensor._make_subclass")
make_wrapper_subclass = bind("torch:Tensor._make_wrapper_subclass")
rebuild_device_tensor = bind("torch._utils:_rebuild_device_tensor_from_cpu_tensor")
tensor_str = bind("torch._tensor_str:_str")
tree_leaves = bind("torch.utils._pytree:tree_leaves")
is_view = bind("torch:Tensor._is_view")
is_zerotensor = bind("torch:Tensor._is_zerotensor")
indices, values = bind("torch:Tensor._indices"), bind("torch:Tensor._values")
neg_view = bind("torch:_neg_view")
set_conj, set_neg = bind("torch._C:_set_conj"), bind("torch._C:_set_neg")
version = getter("torch:Tensor._version")
cdata = getter("torch:default_generator._cdata")
module_apply = place("torch.nn:Module._apply")
apply_of = getter("torch.nn:Module._apply")
own_parameters, own_buffers = attrgetter("_parameters"), attrgetter("_buffers")
lazy_module_apply = Place(bind("torch.nn.modules.lazy:LazyModuleMixin"), "_apply")

# Gradients.
ImperativeEngine = bind("torch._C:_ImperativeEngine")
execution_engine = place("torch.autograd:Variable._execution_engine")
current_autograd_node = bind("torch._C:_current_autograd_node")
sequence_nr = getter("torch.autograd.graph:Node._sequence_nr")
get_sequence_nr = bind("torch._C:_autograd._get_sequence_nr")
forward_level = place("torch.autograd.forward_ad:_current_level")
get_obj_in_tls = bind("torch._C:_get_obj_in_tls")
is_key_in_tls = bind("torch._C:_is_key_in_tls")
stash_obj_in_tls = bind("torch._C:_stash_obj_in_tls")
remove_obj_from_tls = bind("torch._C:_remove_obj_from_tls", seen="2.13 to 2.15")

# Streams, profiles, collectives, FlexAttention.
is_profiling = place("torch.autograd.profiler:_is_profiler_enabled")
ExperimentalConfig = bind("torch._C:_profiler._ExperimentalConfig")
RecordFunctionFast = bind("torch._C:_profiler._RecordFunctionFast")
distributed = bind("torch._C:_distributed_c10d")
create_work_from_future = bind("torch._C:_distributed_c10d._create_work_from_future")
get_backend = bind("torch._C:_distributed_c10d.ProcessGroup._get_backend")
register_backend = bind("torch._C:_distributed_c10d.ProcessGroup._register_backend")
set_default_backend = bind("torch._C:_distributed_c10d.ProcessGroup._set_default_backend")
validate_args = place("torch.distributions:Distribution._validate_args")
flex = bind("torch._higher_order_ops.flex_attention:flex_attention")
flex_backward = bind("torch._higher_order_ops.flex_attention:flex_attention_backward")
flex_dense = bind("torch._higher_order_ops.flex_attention:sdpa_dense")
flex_dense_backward = bind("torch._higher_order_ops.flex_attention:sdpa_dense_backward")
validate_flex_device = place("torch.nn.attention.flex_attention:_validate_device")
flex_runs_step_by_step = place(
    "torch.nn.attention.flex_attention:_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
)


class Compiler(NamedTuple):
    """The names of PyTorch's compiler: its settings, those of its shapes, and its counters."""

    config: Any
    shapes: Any
    counters: Any


@cache
def compiler() -> Compiler:
    return Compiler(
        bind("torch._dynamo:config"),
        bind("torch.fx.experimental:_config"),
        bind("torch._dynamo.utils:counters"),
    )


@cache
def raw_stream_of() -> Any:
    """Returns the function from a CUDA device's number to the handle of its current stream, or
    Missing, as in a PyTorch that is built for the CPU."""
    return bind("torch._C:_cuda_getCurrentRawStream")


@cache
def compile_callbacks() -> Any:
    """Returns the object with which functions are registered that PyTorch's compiler calls when it
    begins and ends to compile, or Missing."""
    return bind("torch._dynamo.callback:callback_handler")
