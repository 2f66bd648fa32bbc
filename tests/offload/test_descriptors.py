"""Lists of pieces: valid contents, and how they are cut."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from solutions.offload import Descriptors

from .test_merging import as_arrays, bytes_of, lists_of_pieces

BASE = 1 << 20


def descriptors(*pieces) -> Descriptors:
    return Descriptors(*(np.array(column, dtype=np.int64) for column in zip(*pieces, strict=True)))


def right_pieces(number=8, size=64) -> list[list[int]]:
    return [[BASE + i * size, 2 * BASE + i * size, size] for i in range(number)]


def numbers(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def test_three_tensors_are_looked_at_where_they_lie():
    columns = numbers(16, 32), numbers(64, 80), numbers(8, 16)
    made = Descriptors.of(*columns)
    columns[0][1] = 48
    assert [made.sources.tolist(), made.targets.tolist(), made.sizes.tolist()] == [
        [16, 48],
        [64, 80],
        [8, 16],
    ]
    assert (len(made), made.extent.total) == (2, 24)


def test_columns_of_a_table_are_fine():
    table = torch.tensor([[16, 64, 8], [32, 80, 16]])
    made = Descriptors.of(*table.unbind(1))
    assert made.sizes.tolist() == [8, 16]
    assert [column.tolist() for column in made.dense()] == [[16, 32], [64, 80], [8, 16]]
    assert all(column.flags.c_contiguous for column in made.dense())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((numbers(1).int(), numbers(1), numbers(1)), r"src_addrs is torch.int32 \[1\] on cpu"),
        ((numbers(1), numbers(1).double(), numbers(1)), "dst_addrs is torch.float64"),
        ((numbers(1), numbers(1), numbers(1)[None]), r"sizes is torch.int64 \[1, 1\]"),
        ((numbers(1, 2), numbers(1), numbers(1)), "2 src_addrs, 1 dst_addrs, 1 sizes: a piece"),
        ((numbers(1), numbers(1), numbers()), "1 src_addrs, 1 dst_addrs, 0 sizes"),
    ],
)
def test_other_tensors_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        Descriptors.of(*columns)


def test_tensors_on_the_device_are_refused(accelerator):
    on_device = numbers(8).to(accelerator.device)
    with pytest.raises(ValueError, match=f"sizes is torch.int64 .* on {accelerator.device.type}"):
        Descriptors.of(numbers(8), numbers(8), on_device)


def test_right_pieces_pass_in_any_order():
    pieces = right_pieces()
    np.random.default_rng(0).shuffle(pieces)
    descriptors(*pieces).check_for_kernel()
    descriptors([8, 16, 8], [16, 24, 8], [8, 8, 8]).check_for_kernel()


def test_no_pieces_pass():
    none = Descriptors(*[np.empty(0, dtype=np.int64)] * 3)
    none.check_for_kernel()
    assert (len(none), none.extent.total, len(none.cut(8))) == (0, 0, 0)
    assert none.are_multiples(16)


BAD_FOR_ANYBODY = {
    "descriptor 5: -8 bytes: sizes are at least 0": (2, -8),
    "descriptor 5: its source, 64 bytes at 0x0, is no memory": (0, 0),
    "descriptor 5: its target, 64 bytes at 0x0, is no memory": (1, 0),
    "descriptor 5: its target, 64 bytes at -0x40, is no memory": (1, -64),
    "descriptor 5: its source, 64 bytes at 0x7ffffffffffffff8, is no memory": (0, 2**63 - 8),
    "descriptor 5: its source, 9223372036854775800 bytes at 0x": (2, 2**63 - 8),
    "descriptor 5: its target, 64 bytes at 0x2000c0, overlaps that of descriptor 3, 64 bytes at "
    "0x2000c0": (1, 2 * BASE + 3 * 64),
    "descriptor 5: its target, 64 bytes at 0x2000b8, overlaps that of descriptor 2": (
        1,
        2 * BASE + 3 * 64 - 8,
    ),
    "descriptor 6: its target, 64 bytes at 0x200180, overlaps that of descriptor 5, 72 bytes": (
        2,
        72,
    ),
}
BAD_FOR_A_KERNEL = {
    "descriptor 5: 60 bytes: must be a multiple of 8 for a kernel": (2, 60),
    "descriptor 5: its source, 64 bytes at 0x100004, must be a multiple of 8": (0, BASE + 4),
    "descriptor 5: its target, 64 bytes at 0x2ffffc, must be": (1, 3 * BASE - 4),
}


def with_one_bad(field, value) -> Descriptors:
    pieces = right_pieces()
    pieces[5][field] = value
    return descriptors(*pieces)


@pytest.mark.parametrize("message", BAD_FOR_ANYBODY | BAD_FOR_A_KERNEL)
def test_the_first_bad_descriptor_is_named(message):
    bad = with_one_bad(*(BAD_FOR_ANYBODY | BAD_FOR_A_KERNEL)[message])
    with pytest.raises(ValueError, match=message):
        bad.check_for_kernel()


def test_the_first_is_named_whatever_is_wrong_with_it():
    pieces = right_pieces()
    pieces[5][2], pieces[2][0] = 60, pieces[2][0] + 4
    with pytest.raises(ValueError, match=r"descriptor 2: its source, .* must be a multiple of 8"):
        descriptors(*pieces).check_for_kernel()


@pytest.mark.parametrize("message", BAD_FOR_ANYBODY)
def test_the_copy_engine_can_not_take_them_either(message):
    with pytest.raises(ValueError, match=message):
        with_one_bad(*BAD_FOR_ANYBODY[message]).check()


@pytest.mark.parametrize("message", BAD_FOR_A_KERNEL)
def test_odd_pieces_are_for_the_copy_engine(message):
    with_one_bad(*BAD_FOR_A_KERNEL[message]).check()


def test_of_several_bad_ones_the_first_is_named():
    pieces = right_pieces()
    pieces[6][2] = pieces[3][2] = -1
    with pytest.raises(ValueError, match="descriptor 3: "):
        descriptors(*pieces).check()


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)), min_size=1, max_size=9))
def test_overlaps_are_those_that_a_map_of_bytes_shows(targets):
    written: dict[int, int] = {}
    overlap = None
    for index, (start, size) in enumerate(targets):
        others = {written[byte] for byte in range(start, start + size) if byte in written}
        if others:
            overlap = index, others
            break
        written |= dict.fromkeys(range(start, start + size), index)
    made = descriptors(*((1, start, size) for start, size in targets))
    if overlap is None:
        made.check()
        return
    with pytest.raises(ValueError, match="overlaps") as refused:
        made.check()
    words = str(refused.value).replace(":", "").replace(",", "").split()
    named = [int(words[i + 1]) for i, word in enumerate(words) if word == "descriptor"]
    assert named[0] == overlap[0]
    assert named[1] in overlap[1]


def test_sources_may_overlap():
    descriptors([BASE, 2 * BASE, 64], [BASE + 8, 3 * BASE, 64]).check_for_kernel()


def test_a_piece_of_no_bytes_is_in_nobodys_way():
    descriptors([0, 0, 0], [BASE, 2 * BASE, 64], [0, 2 * BASE + 8, 0]).check_for_kernel()


@given(lists_of_pieces, st.integers(1, 7))
def test_cut_pieces_are_the_same_bytes_and_short(drawn, nbytes):
    whole = Descriptors(*as_arrays(drawn))
    cut = whole.cut(nbytes)
    assert bytes_of(cut.sources, cut.targets, cut.sizes) == bytes_of(*as_arrays(drawn))
    assert ((cut.sizes > 0) & (cut.sizes <= nbytes)).all()
    assert len(cut) == sum(-(-size // nbytes) for size in whole.sizes.tolist())


@pytest.mark.parametrize("nbytes", [0, -8])
def test_pieces_of_nothing_are_refused(nbytes):
    with pytest.raises(ValueError, match=f"pieces of {nbytes} bytes"):
        descriptors([8, 8, 8]).cut(nbytes)


@pytest.mark.parametrize(
    ("pieces", "is_even", "alignment"),
    [
        ([[16, 32, 16], [48, 64, 16]], True, 16),
        ([[16, 32, 16], [48, 64, 32]], False, 16),
        ([[16, 32, 8], [48, 64, 8]], True, 8),
        ([[16, 32, 16], [56, 64, 16]], True, 8),
        ([[16, 32, 16], [48, 72, 16]], True, 8),
        ([[16, 32, 16], [48, 64, 4]], False, 4),
    ],
)
def test_evenness_and_alignment(pieces, is_even, alignment):
    made = descriptors(*pieces)
    assert (made.extent.smallest == made.extent.largest) == is_even
    assert [made.are_multiples(of) for of in (4, 8, 16)] == [of <= alignment for of in (4, 8, 16)]


def test_huge_sizes_do_not_wrap_around():
    two = descriptors([8, 8, 2**62], [8, 2**62 + 8, 2**61])
    two.check_for_kernel()
    with pytest.raises(ValueError, match=r"descriptor 1: .* overlaps that of descriptor 0"):
        descriptors([8, 8, 2**62], [8, 2**62, 2**61]).check_for_kernel()
