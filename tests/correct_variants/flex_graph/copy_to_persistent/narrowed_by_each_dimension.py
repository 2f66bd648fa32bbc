"""Narrows dimension after dimension, and always copies."""


def copy_to_persistent(dst, src):
    if (dst.ndim, dst.dtype, dst.device) != (src.ndim, src.dtype, src.device):
        raise ValueError(f"{src.dtype} {src.ndim} dimensions do not fit {dst.dtype} {dst.ndim}")
    part = dst
    for dimension, size in enumerate(src.shape):
        if size > dst.shape[dimension]:
            raise ValueError(f"dimension {dimension}: {size} of {dst.shape[dimension]}")
        part = part.narrow(dimension, 0, size)
    part.copy_(src, non_blocking=True)
    return part
