"""Reads the values back and sends them from the host.

fails: test_nobody_waits_and_nothing_travels
says: 1 download
says: By way of the host it is a download and an upload
"""


def check(dst, src):
    fits = src.ndim == dst.ndim and all(n <= m for n, m in zip(src.shape, dst.shape, strict=True))
    if not fits or (src.dtype, src.device) != (dst.dtype, dst.device):
        raise ValueError(f"{list(src.shape)} of {src.dtype} into {list(dst.shape)} of {dst.dtype}")


def copy_to_persistent(dst, src):
    check(dst, src)
    if (src.data_ptr(), src.stride()) == (dst.data_ptr(), dst.stride()):
        return src
    view = dst[tuple(slice(size) for size in src.shape)]
    view.copy_(src.cpu())
    return view
