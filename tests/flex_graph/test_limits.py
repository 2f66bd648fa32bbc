"""The sizes that follow from the scheduler's limits."""

import pytest

from solutions.flex_graph.steps.limits import Limits

SIZES = {
    "max_num_seqs": 8,
    "max_num_batched_tokens": 100,
    "max_model_len": 100,
    "num_gpu_blocks": 50,
}


def test_a_table_has_a_column_for_every_page_that_is_begun():
    limits = Limits(**SIZES | {"max_model_len": 33})
    assert (limits.pages_per_seq, limits.pages_of(32), limits.pages_of(0)) == (3, 2, 0)


def test_a_group_is_made_for_every_16_tokens_that_are_begun():
    limits = Limits(**SIZES)
    assert (limits.groups, limits.groups_of(96), limits.groups_of(1)) == (7, 6, 1)


def test_the_cache_has_block_0_too():
    assert Limits(**SIZES, block_size=32).num_slots == 1600


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *(({name: 0}, f"{name} 0: it must be at least 1") for name in SIZES),
        ({"max_num_seqs": -3}, "max_num_seqs -3"),
        ({"num_gpu_blocks": 1}, "num_gpu_blocks 1: block 0 belongs to no request"),
        ({"block_size": 24}, "block_size 24: choose one of 16, 32, 64, 128"),
        ({"block_size": 0}, "block_size 0: it must be at least 1"),
        ({"block_size": 1}, "block_size 1: choose one of 16, 32, 64, 128"),
        ({"q_block": 8}, "q_block 8: choose one of 1, 16, 32, 64, 128"),
        ({"num_gpu_blocks": 2**27}, "num_gpu_blocks 134217728 of 16 tokens: .* at most 134217727"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Limits(**SIZES | wrong)
