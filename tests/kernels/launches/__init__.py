"""The launches of each Triton kernel of `solutions` by the steps, for any of the architectures.

A module has `LAUNCHES`, {kernel: {name: how}}, and `VARIES`, {kernel: (numbers that differ in each
step, tensors that have different places in an upload)}, as words. `how` is the input of
`triton.compile`, or a function that returns it for `shared_memory`, the bytes that a block may
have:

    arguments        {name: type}
    aligned          names of arguments that are multiples of 16
    constants        {name: value}
    options          num_warps and the like
    tensor_cores     True if products run on tensor cores; absent if there are no products
    slow_to_compile  True if machine code takes many seconds: it is made in deep runs
    ptx_is_read      True if machine code is made for every architecture
"""

from . import engine, flex_graph, gdn, gdn_chunks, host_bound, offload, pinned_h2d, sync_free

_MODULES = (engine, flex_graph, gdn, gdn_chunks, host_bound, offload, pinned_h2d, sync_free)
LAUNCHES = {kernel: ways for module in _MODULES for kernel, ways in module.LAUNCHES.items()}
VARIES = {
    kernel: tuple(names.split() for names in both)
    for module in _MODULES
    for kernel, both in module.VARIES.items()
}
