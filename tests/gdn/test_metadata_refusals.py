"""Refusals of GDNAttentionMetadataBuilder, before anything is uploaded."""

from dataclasses import replace

import pytest
import torch

from solutions.gdn.metadata import GDNAttentionMetadataBuilder
from solutions.pinned_h2d import StagingRing
from tests.common.refusals import expect_refused

from .batches import MIXED, TABLES, call_of, int32

IN_ALL_WAYS = pytest.mark.parametrize("tables", TABLES)

BAD_BATCHES = {
    "query_start_loc_cpu starts at 1": {"query_start_loc_cpu": [1, 4, 69, 71, 75, 75, 75]},
    "query_start_loc_cpu is empty": {"query_start_loc_cpu": []},
    "goes from 69 down to 4 at request 2": {"query_start_loc_cpu": [0, 1, 69, 4, 71, 75, 75]},
    "ends at 74, and there are 75 tokens": {"query_start_loc_cpu": [0, 1, 4, 69, 71, 74, 74]},
    "ends at 75, and there are 80 tokens": {"num_actual_tokens": 80},
    "request 4 has 6 tokens and comes after request 3": {
        "query_start_loc_cpu": [0, 1, 4, 69, 69, 75, 75],
        "seq_lens_cpu": [6, 8, 65, 7, 9, 0],
    },
    "request 1 has 3 tokens in this step and 2 in all": {"seq_lens_cpu": [6, 2, 65, 7, 7, 0]},
    "seq_lens_cpu has 5 entries, .* of 6 requests": {"seq_lens_cpu": [6, 8, 65, 7, 7]},
    r"seq_lens is torch.int32 \[5\] on": {"seq_lens": lambda common: common.seq_lens[:5]},
    "seq_lens is torch.int64": {"seq_lens": lambda common: common.seq_lens.long()},
    r"seq_lens is torch.int32 \[6\] on cpu": {"seq_lens": lambda common: common.seq_lens_cpu},
    r"query_start_loc is torch.int32 \[7\] on cpu": {
        "query_start_loc": lambda common: common.query_start_loc_cpu
    },
    r"query_start_loc is torch.int32 \[4\]": {
        "query_start_loc": lambda common: common.query_start_loc[::2]
    },
    r"state_indices is torch.int32 \[5, 3\]": {
        "state_indices": lambda common: common.state_indices[:5]
    },
    r"state_indices is torch.int32 \[6\]": {
        "state_indices": lambda common: common.state_indices[:, 0]
    },
    r"state_indices is torch.int32 \[6, 0\]": {
        "state_indices": lambda common: common.state_indices[:, :0]
    },
    "state_indices is torch.int64": {"state_indices": lambda common: common.state_indices.long()},
    "state_indices is .* on cpu": {"state_indices": lambda common: common.state_indices.cpu()},
    "query_start_loc_cpu is on .* give it on the host": {
        "query_start_loc_cpu": lambda common: common.query_start_loc
    },
    "seq_lens_cpu is on .* give it on the host": {"seq_lens_cpu": lambda common: common.seq_lens},
    "query_start_loc_cpu is float32": {
        "query_start_loc_cpu": lambda common: common.query_start_loc_cpu.float()
    },
}


def changed(common, changes):
    """Returns the batch with some fields changed to the values of `changes`: lists become tensors
    on the host, and functions are called with the batch."""
    for name, value in changes.items():
        value = value(common) if callable(value) else value
        value = int32(value) if isinstance(value, list) else value
        common = replace(common, **{name: value})
    return common


@IN_ALL_WAYS
@pytest.mark.parametrize("message", BAD_BATCHES)
def test_a_batch_that_cannot_be_is_refused(accelerator, message, tables):
    common, given = MIXED.common(accelerator), MIXED.speculation(accelerator)
    bad = changed(common, BAD_BATCHES[message])
    builder = GDNAttentionMetadataBuilder(accelerator.device, tables)
    call = lambda: builder.build(bad, **given)
    expect_refused(accelerator, call, message, unchanged=(common.query_start_loc,))


BAD_SPECULATION = {
    "num_decode_draft_tokens_cpu has 5 entries for 6 requests": lambda given: {
        "num_decode_draft_tokens_cpu": int32([-1, 2, -1, 1, -1])
    },
    "request 0 has -2 draft tokens": lambda given: {
        "num_decode_draft_tokens_cpu": int32([-2, 2, -1, 1, -1, -1])
    },
    "request 3 has 2 tokens in this step and 2 draft tokens": lambda given: {
        "num_decode_draft_tokens_cpu": int32([-1, 2, -1, 2, -1, -1])
    },
    "request 5 has 0 tokens in this step and 0 draft tokens": lambda given: {
        "num_decode_draft_tokens_cpu": int32([-1, 2, -1, 1, -1, 0])
    },
    "request 4 has 3 draft tokens, and state_indices 3 columns": lambda given: {
        "num_decode_draft_tokens_cpu": int32([-1, 2, -1, 1, 3, -1])
    },
    "num_decode_draft_tokens_cpu is on": lambda given: {
        "num_decode_draft_tokens_cpu": given["num_accepted_tokens"]
    },
    "num_decode_draft_tokens_cpu is float32": lambda given: {
        "num_decode_draft_tokens_cpu": torch.zeros(6)
    },
    "num_accepted_tokens is None, and request 1 is speculative": lambda given: {
        "num_accepted_tokens": None
    },
    r"num_accepted_tokens is torch.int32 \[5\]": lambda given: {
        "num_accepted_tokens": given["num_accepted_tokens"][:5]
    },
    "num_accepted_tokens is torch.int64": lambda given: {
        "num_accepted_tokens": given["num_accepted_tokens"].long()
    },
    r"num_accepted_tokens is torch.int32 \[6\] on cpu": lambda given: {
        "num_accepted_tokens": given["num_decode_draft_tokens_cpu"]
    },
}


@IN_ALL_WAYS
@pytest.mark.parametrize("message", BAD_SPECULATION)
def test_speculation_that_does_not_fit_is_refused(accelerator, message, tables):
    common, given = MIXED.common(accelerator), MIXED.speculation(accelerator)
    bad = given | BAD_SPECULATION[message](given)
    builder = GDNAttentionMetadataBuilder(accelerator.device, tables)
    call = lambda: builder.build(common, **bad)
    expect_refused(accelerator, call, message, unchanged=(given["num_accepted_tokens"],))


def test_a_ring_that_is_too_small_is_refused(accelerator):
    ring = StagingRing((64,), torch.uint8, depth=2)
    call = call_of(accelerator, MIXED, "host", ring)
    expect_refused(accelerator, call, "a slot of this ring holds 64", unchanged=())


def test_tables_that_nobody_makes_are_refused(accelerator):
    with pytest.raises(ValueError, match="tables 'gpu': choose 'host', 'device' or None"):
        GDNAttentionMetadataBuilder(accelerator.device, "gpu")
