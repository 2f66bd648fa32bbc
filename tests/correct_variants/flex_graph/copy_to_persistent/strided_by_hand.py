"""Makes the view from sizes, strides and the place where `dst` begins."""


def copy_to_persistent(dst, src):
    alike = dst.dtype == src.dtype and dst.device == src.device and dst.dim() == src.dim()
    if not alike or any(a > b for a, b in zip(src.shape, dst.shape, strict=True)):
        raise ValueError("does not fit")
    part = torch.as_strided(dst, src.shape, dst.stride(), dst.storage_offset())
    if part.data_ptr() != src.data_ptr() or part.stride() != src.stride():
        part[...] = src
    return part
