"""Gives the buffer itself the size of the step.

fails: test_it_is_a_slice_of_the_buffer
fails: test_the_buffer_may_be_a_slice_itself
fails: test_the_slice_is_written_and_nothing_else
fails: test_the_buffer_stays_where_it_is
fails: test_a_replay_reads_the_batch_of_its_step
says: `resize_` and `set_` change them for everybody who holds the tensor
"""


def check(dst, src):
    fits = src.ndim == dst.ndim and all(n <= m for n, m in zip(src.shape, dst.shape, strict=True))
    if not fits or (src.dtype, src.device) != (dst.dtype, dst.device):
        raise ValueError(f"{list(src.shape)} of {src.dtype} into {list(dst.shape)} of {dst.dtype}")


def copy_to_persistent(dst, src):
    check(dst, src)
    if (src.data_ptr(), src.stride()) == (dst.data_ptr(), dst.stride()):
        return src
    dst.resize_(src.shape)
    dst.copy_(src)
    return dst
