"""The launches of the kernels of `solutions.host_bound`."""

from functools import partial

from solutions.host_bound.kernels import ROWS

from .arguments import pointers


def store(width: int, *, shared_memory: int) -> dict:
    """Describes a launch of the kernel that writes new tokens of `width` numbers into the cache."""
    return launch(pointers("fp32", "new cache") | pointers("i32", "slots"), ["new", "cache"], width)


def layer(width: int, *, shared_memory: int) -> dict:
    """Describes a launch of the kernel that computes a layer."""
    tensors = pointers("fp32", "hidden scale bias output")
    return launch(tensors, [*tensors], width)


def launch(tensors: dict[str, str], aligned: list[str], width: int) -> dict:
    return {
        "arguments": tensors | {"num_tokens": "i32"},
        "aligned": aligned,
        "constants": {"ROWS": ROWS, "WIDTH": width},
        "options": {"num_warps": 4},
    }


KERNELS = {"specialised_kernel": store, "layer_kernel": layer}
LAUNCHES = {
    f"solutions.host_bound.kernels:{name}": {
        f"{width} numbers": partial(of_width, width) for width in (16, 256)
    }
    for name, of_width in KERNELS.items()
}
VARIES = {
    f"solutions.host_bound.kernels:{name}": (["num_tokens"], [])
    for name in ("store_kernel", "layer_kernel")
}
