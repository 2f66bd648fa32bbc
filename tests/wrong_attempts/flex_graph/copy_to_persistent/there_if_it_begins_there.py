"""Takes a source that begins where the buffer begins, with the slice's shape, for the slice.

fails: test_a_transposed_view_is_not_there_already
says: Expected the stride of what copy_to_persistent(dst, dst.t()) of a dst [4, 4]
"""


def copy_to_persistent(dst, src, own=copy_to_persistent):
    if src.data_ptr() == dst.data_ptr() and src.dim() == dst.dim() and src.shape <= dst.shape:
        return src
    return own(dst, src)
