"""The launches of the kernel of `solutions.host_bound`."""

from functools import partial

from solutions.host_bound.kernels import ROWS

from .arguments import pointers


def store(width: int, *, shared_memory: int) -> dict:
    """Describes a launch of the kernel that writes new tokens of `width` numbers into the cache."""
    tensors = pointers("fp32", "new cache") | pointers("i32", "slots")
    return {
        "arguments": tensors | {"num_tokens": "i32"},
        "aligned": ["new", "cache"],
        "constants": {"ROWS": ROWS, "WIDTH": width},
        "options": {"num_warps": 4},
    }


LAUNCHES = {
    "solutions.host_bound.kernels:specialised_kernel": {
        f"{width} numbers": partial(store, width) for width in (16, 256)
    }
}
VARIES = {"solutions.host_bound.kernels:store_kernel": (["num_tokens"], [])}
