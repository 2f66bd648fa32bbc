"""The launches of the kernels of `solutions.host_bound`."""

from solutions.host_bound.kernels import ROWS

from .arguments import launch, pointers


def store(width: int) -> dict:
    """Describes a launch of the kernel that writes new tokens of `width` numbers into the cache."""
    tensors = pointers("fp32", "new cache") | pointers("i32", "slots")
    numbers = {"num_tokens": "i32"}
    return launch(tensors | numbers, ["new", "cache"], ROWS=ROWS, WIDTH=width)


def layer(width: int) -> dict:
    """Describes a launch of the kernel that computes a layer."""
    tensors = pointers("fp32", "hidden scale bias output")
    return launch(tensors | {"num_tokens": "i32"}, [*tensors], ROWS=ROWS, WIDTH=width)


KERNELS = {"specialised_kernel": store, "layer_kernel": layer}
LAUNCHES = {
    f"solutions.host_bound.kernels:{name}": {
        f"{width} numbers": of_width(width) for width in (16, 256)
    }
    for name, of_width in KERNELS.items()
}
VARIES = {
    f"solutions.host_bound.kernels:{name}": ("num_tokens", "")
    for name in ("store_kernel", "layer_kernel")
}
