"""Triton's private names, most of them its interpreter's. Import this module where a kernel runs:
Triton decides when it is imported whether it compiles or interprets kernels."""

from ..contract.packages.installed import installed
from . import Names

NAMES = Names(
    "Triton",
    installed("triton") or "the installed one",
    "3.6 to 3.9",
    lambda end: ImportError(f"debubble needs {end}"),
)

interpreter = NAMES.place("triton.runtime.interpreter:_interpreter")
patch_attr = NAMES.bind("triton.runtime.interpreter:_patch_attr")
patch_builtin = NAMES.place("triton.runtime.interpreter:_patch_builtin")
get_np_dtype = NAMES.place("triton.runtime.interpreter:_get_np_dtype")
implicit_cvt = NAMES.place("triton.runtime.interpreter:_implicit_cvt")
init_args_hst = NAMES.place("triton.runtime.interpreter:GridExecutor._init_args_hst")
restore_args_dev = NAMES.place("triton.runtime.interpreter:GridExecutor._restore_args_dev")
bench = NAMES.place("triton.runtime.autotuner:Autotuner._bench")
summarize_statistics = NAMES.bind("triton.testing:_summarize_statistics")
