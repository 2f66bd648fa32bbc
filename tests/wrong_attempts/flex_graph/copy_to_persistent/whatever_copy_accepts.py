"""Leaves it to `copy_` to refuse what does not fit.

fails: test_what_does_not_fit_is_refused
fails: test_another_type_and_another_device_are_refused
says: `copy_` spreads a row over many and converts types without a word
"""


def copy_to_persistent(dst, src):
    view = dst[tuple(slice(size) for size in src.shape)]
    if (src.data_ptr(), src.stride()) != (view.data_ptr(), view.stride()):
        view.copy_(src)
    return view
