"""The kernel, compared with dense attention in float32."""

import itertools
import re
from dataclasses import replace

import pytest
import torch

from solutions.pinned_h2d import NOT_COMPUTED, check_ranges, prefix_attention
from tests.far_apart import HALF, address_space, only_the_kernels

from .oracle import AttentionCase, padded

TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 2e-2, torch.float32: 1e-4}
MIXED = [(1, 1328), (5, 18), (129, 463)]
DECODE = [(1, 523), (1, 37), (1, 2011)]
HEADS = [(4, 4), (8, 2), (5, 1)]
WINDOWS = [None, 64, 128, 256]
RANGES = {
    "none": None,
    "one each": [[(100, 1327)], [(2, 15)], [(300, 400)]],
    "overlapping and degenerate": [
        [(0, 0), (1200, 1327)],
        [(0, 1), (14, 17), (10, 15), (7, 7)],
        [(350, 420), (400, 462), (0, 1), (0, 0), (334, 340)],
    ],
    "reaching past the cache": [[(5, 9)], [(10, 40)], [(330, 2000), (340, 350)]],
}
# These spans hold the tokens that the sequences of DECODE decode.
DECODED = [[(3, 522)], [(30, 36), (0, 1)], [(1990, 2010), (1800, 2040)]]
ALL_RANGES = RANGES | {"decoded": DECODED}


def expect_agreement(lengths, heads, head_size, window, dtype, ranges, padding=0):
    if ranges is not None:
        check_ranges(dict(enumerate(ranges)))
    case = AttentionCase.random(lengths, heads, head_size, dtype, padding)
    tensor = None if ranges is None else padded(ranges, num_seqs=len(lengths) + padding)
    output = case.attention(tensor, window=window)
    error = (output - case.oracle(ranges, window)).abs().max().item()
    assert error < TOLERANCE[dtype]


# The grid has each value of each dimension, and each pair that the kernel treats as one case.
SHORT_GRID = [
    (MIXED, (8, 2), 128, None, torch.float32, "one each"),
    (MIXED, (5, 1), 256, 64, torch.float32, "overlapping and degenerate"),
    (MIXED, (4, 4), 128, 128, torch.bfloat16, "overlapping and degenerate"),
    (MIXED, (8, 2), 256, 256, torch.bfloat16, "reaching past the cache"),
    (MIXED, (5, 1), 128, None, torch.bfloat16, "none"),
    (DECODE, (4, 4), 256, None, torch.bfloat16, "none"),
    (DECODE, (5, 1), 128, 64, torch.float32, "decoded"),
    (MIXED, (8, 2), 64, 64, torch.float16, "one each"),
    (MIXED, (2, 1), 80, 64, torch.bfloat16, "one each"),
    (MIXED, (6, 2), 96, None, torch.float32, "overlapping and degenerate"),
]
FULL_GRID = [
    (lengths, *shape, name)
    for lengths, names in ((MIXED, RANGES), (DECODE, ["none", "decoded"]))
    for shape in itertools.product(HEADS, [128, 256], WINDOWS, [torch.bfloat16, torch.float32])
    for name in names
]


@pytest.mark.parametrize(("lengths", "heads", "head_size", "window", "dtype", "ranges"), SHORT_GRID)
def test_it_agrees_with_dense_attention(lengths, heads, head_size, window, dtype, ranges):
    expect_agreement(lengths, heads, head_size, window, dtype, ALL_RANGES[ranges])


@pytest.mark.gpu
@pytest.mark.parametrize(("lengths", "heads", "head_size", "window", "dtype", "ranges"), FULL_GRID)
def test_it_agrees_on_the_whole_grid(lengths, heads, head_size, window, dtype, ranges):
    expect_agreement(lengths, heads, head_size, window, dtype, ALL_RANGES[ranges])


def test_prefill_from_the_first_token_with_bidirectional_images():
    ranges = [[(2, 9), (20, 33)], [(0, 39)], []]
    expect_agreement(
        [(48, 48), (40, 40), (33, 33)],
        (4, 2),
        64,
        8,
        torch.float32,
        [r or [(0, 0)] for r in ranges],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("num_tokens", "window", "span"),
    [(200, None, (100, 128)), (300, 16, (127, 299))],
    ids=["its last key begins a tile", "its first key ends a tile"],
)
def test_a_span_counts_to_its_last_key_at_the_edge_of_a_tile(num_tokens, window, span, dtype):
    """Attention is right for spans whose first or last key is at the edge of a tile of keys. Tiles
    begin at multiples of 16, 64 or 128, depending on the hardware."""
    lengths = [(num_tokens, num_tokens)]
    expect_agreement(lengths, (1, 1), 32, window, dtype, [[span]])


def test_padding_rows_of_a_graph_are_harmless():
    expect_agreement([(5, 18), (1, 7)], (4, 2), 64, None, torch.float32, [[(2, 15)], [(1, 6)]], 3)


def test_ranges_are_read_at_any_capacity_and_alignment(accelerator):
    """Attention is right for range tensors of any capacity that begin at any row of a larger
    buffer, as those of a micro-batch do."""
    case = AttentionCase.random([(16, 16), (16, 16)], (2, 1), 64)
    ranges = [[(2, 9)], [(3, 14), (1, 2)]]
    for capacity, first in [(2, 0), (3, 1), (5, 3)]:
        buffer = padded([[(1, 15)]] * first + ranges, capacity)
        output = case.attention(buffer[first:])
        assert (output - case.oracle(ranges)).abs().max() < 1e-4


def test_keys_that_no_query_may_see_are_not_even_read(accelerator):
    """The kernel doesn't read values outside the window and spans: all but one tile are NaN here,
    which would spoil every output, even with a weight of zero."""
    case = AttentionCase.random([(16, 1024)], (2, 1), 64)
    blocks = torch.from_numpy(case.requests.blocks[0])
    case.value_cache[blocks[: (1024 - 16 - 64) // 16 - 8]] = float("nan")  # all but one tile
    spans = padded([[(1000, 1020)]])
    assert case.attention(window=64).isfinite().all()
    assert case.attention(spans, window=64).isfinite().all()
    far = padded([[(100, 1020)]])
    assert case.attention(far, window=64).isnan().any()
    assert case.attention(far, window=64, clamp_to_window=True).isfinite().all()


REFUSED_RANGES = {
    "without the dimension of a request's ranges": torch.zeros(2, 2, dtype=torch.int32),
    "of one request where there are two": torch.zeros(1, 3, 2, dtype=torch.int32),
    "of three requests where there are two": torch.zeros(3, 3, 2, dtype=torch.int32),
    "as triples": torch.zeros(2, 1, 3, dtype=torch.int32),
    "int64": torch.zeros(2, 1, 2, dtype=torch.int64),
}


@pytest.mark.parametrize("ranges", REFUSED_RANGES.values(), ids=REFUSED_RANGES)
def test_ranges_of_another_shape_or_type_are_refused(accelerator, ranges):
    case = AttentionCase.random([(4, 4), (4, 4)], (2, 1), 32)
    with pytest.raises(ValueError, match=r"make it torch.int32 \[2, max_ranges, 2\]"):
        case.attention(ranges.to(accelerator.device))


REFUSED_OUTPUTS = {
    "with its heads apart": torch.zeros(8, 32, 2).transpose(1, 2),
    "of integers": torch.zeros(8, 2, 32, dtype=torch.int32),
    "of halves": torch.zeros(8, 2, 32, dtype=torch.bfloat16),
    "of fewer tokens": torch.zeros(7, 2, 32),
}


@pytest.mark.parametrize("output", REFUSED_OUTPUTS.values(), ids=REFUSED_OUTPUTS)
def test_an_output_that_is_not_like_the_queries_is_refused(accelerator, output):
    case = AttentionCase.random([(4, 4), (4, 4)], (2, 1), 32)
    on_device = torch.empty_strided(
        output.shape, output.stride(), dtype=output.dtype, device=accelerator.device
    )
    with pytest.raises(ValueError, match=r"make it torch.float32 \[8, 2, 32\], contiguous"):
        case.attention(output=on_device)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("query", [2, 32]), ("query", [4, 0, 32]), ("key_cache", [16, 1, 32])],
    ids=str,
)
def test_tensors_of_other_dimensions_are_refused(accelerator, name, shape):
    case = AttentionCase.random([(4, 4)], (2, 1), 32)
    setattr(case, name, torch.zeros(shape))
    with pytest.raises(ValueError, match=rf"{name} is of shape {re.escape(str(shape))}: make it"):
        case.attention()


def test_an_empty_batch_is_no_launch(accelerator):
    case = AttentionCase.random([(1, 4)], (2, 1), 64)
    case.batch = case.requests.batch([range(0, 0)], accelerator.device)
    case.query = case.query[:0]
    assert case.attention().shape == (0, 2, 64)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"head_size": 512}, ValueError, "head size 512: this kernel holds 16 to 256"),
        ({"heads": (5, 2)}, ValueError, "5 heads for 2 KV heads: must be a multiple"),
        ({"dtype": torch.float64}, TypeError, "queries of torch.float64: use bfloat16"),
        ({"window": 0}, ValueError, "window 0: must be at least 1, or None"),
        ({"clamp_to_window": True}, ValueError, "clamp_to_window needs a window"),
        ({"ranges": NOT_COMPUTED}, TypeError, "give the metadata its ranges before the first"),
    ],
)
def test_what_the_kernel_cannot_do_is_refused(change, error, text):
    shape = {"heads": (4, 2), "head_size": 64, "dtype": torch.float32}
    case = AttentionCase.random(
        [(5, 18)], **{name: change.get(name, value) for name, value in shape.items()}
    )
    with pytest.raises(error, match=text):
        case.attention(**{name: value for name, value in change.items() if name not in shape})


@pytest.mark.gpu_memory(27)
def test_offsets_beyond_32_bits(accelerator, monkeypatch):
    """Attention is right with offsets beyond 32 bits: the last tokens of a long tensor, rows of a
    wide block table and last blocks of a large cache give the same results as near ones."""
    only_the_kernels(accelerator, monkeypatch, "solutions.pinned_h2d.model.attention")
    space = address_space(accelerator, torch.float32)
    to_device = lambda tensor: tensor.to(space.device)
    case = AttentionCase.random([(1, 5), (1, 17), (1, 20)], (2, 1), 32)
    batch, blocks = case.batch, case.requests.num_blocks
    near = {name: to_device(value) for name, value in vars(batch).items() if hasattr(value, "to")}
    query = to_device(case.query[:1])
    ranges = torch.tensor([[[1, 3]], [[0, 9]], [[2, 8]]], dtype=torch.int32, device=space.device)
    caches = to_device(case.key_cache), to_device(case.value_cache)
    right = prefix_attention(query.expand(3, 2, 32), *caches, replace(batch, **near), ranges=ranges)

    beyond, block_size = HALF // 512, 512
    far_caches = []
    for place, cache in zip((HALF // 2, HALF // 2 + 2**20), caches, strict=True):
        far_caches.append(space[place:][: (beyond + blocks) * block_size].view(-1, 16, 1, 32))
        far_caches[-1][beyond:].copy_(cache)
    table = space.view(torch.int32)[2**21 :].as_strided(near["block_table"].shape, (2**30, 1))
    table.copy_(near["block_table"] + beyond)
    first = HALF // 64
    far = {"block_table": table, "query_start_loc": near["query_start_loc"] + first}
    many = query.expand(first + 3, 2, 32)
    found = prefix_attention(many, *far_caches, replace(batch, **near | far), ranges=ranges)
    torch.testing.assert_close(found[-3:], right)
