"""Refusals of GDNAttentionMetadataBuilder, before anything is uploaded."""

from dataclasses import replace

import pytest
import torch

from debubble.accelerator import current
from solutions.gdn.metadata import GDNAttentionMetadataBuilder
from solutions.pinned_h2d import StagingRing
from tests.common.refusals import changed, expect_refused

from .batches import MIXED, TABLES, call_of, int32

IN_ALL_WAYS = pytest.mark.parametrize("tables", TABLES)

BAD_BATCHES = {
    "query_start_loc_cpu starts at 1": {"query_start_loc_cpu": int32([1, 4, 69, 71, 75, 75, 75])},
    "query_start_loc_cpu is empty": {"query_start_loc_cpu": int32([])},
    "goes from 69 down to 4 at request 2": {
        "query_start_loc_cpu": int32([0, 1, 69, 4, 71, 75, 75])
    },
    "ends at 74, and there are 75 tokens": {
        "query_start_loc_cpu": int32([0, 1, 4, 69, 71, 74, 74])
    },
    "ends at 75, and there are 80 tokens": {"num_actual_tokens": 80},
    "request 4 has 6 tokens and comes after request 3": {
        "query_start_loc_cpu": int32([0, 1, 4, 69, 69, 75, 75]),
        "seq_lens_cpu": int32([6, 8, 65, 7, 9, 0]),
    },
    "request 1 has 3 tokens in this step and 2 in all": {
        "seq_lens_cpu": int32([6, 2, 65, 7, 7, 0])
    },
    "seq_lens_cpu has 5 entries, .* of 6 requests": {"seq_lens_cpu": int32([6, 8, 65, 7, 7])},
    r"seq_lens is torch.int32 \[5\] on": {"seq_lens": lambda x: x[:5]},
    "seq_lens is torch.int64": {"seq_lens": lambda x: x.long()},
    r"seq_lens is torch.int32 \[6\] on cpu": {"seq_lens": lambda x: x.cpu()},
    r"query_start_loc is torch.int32 \[7\] on cpu": {"query_start_loc": lambda x: x.cpu()},
    r"query_start_loc is torch.int32 \[4\]": {"query_start_loc": lambda x: x[::2]},
    r"state_indices is torch.int32 \[5, 3\]": {"state_indices": lambda x: x[:5]},
    r"state_indices is torch.int32 \[6\]": {"state_indices": lambda x: x[:, 0]},
    r"state_indices is torch.int32 \[6, 0\]": {"state_indices": lambda x: x[:, :0]},
    "state_indices is torch.int64": {"state_indices": lambda x: x.long()},
    "state_indices is .* on cpu": {"state_indices": lambda x: x.cpu()},
    "query_start_loc_cpu is on .* give it on the host": {
        "query_start_loc_cpu": lambda x: x.to(current().device)
    },
    "seq_lens_cpu is on .* give it on the host": {"seq_lens_cpu": lambda x: x.to(current().device)},
    "query_start_loc_cpu is float32": {"query_start_loc_cpu": lambda x: x.float()},
}


@IN_ALL_WAYS
@pytest.mark.parametrize("message", BAD_BATCHES)
def test_a_batch_that_cannot_be_is_refused(accelerator, message, tables):
    common, given = MIXED.common(accelerator), MIXED.speculation(accelerator)
    given_as = BAD_BATCHES[message]
    fields = {name: getattr(common, name) for name in given_as}
    bad = replace(common, **changed(fields, given_as))
    builder = GDNAttentionMetadataBuilder(accelerator.device, tables)
    call = lambda: builder.build(bad, **given)
    expect_refused(accelerator, call, message, unchanged=(common.query_start_loc,))


DRAFTS, ACCEPTED = "num_decode_draft_tokens_cpu", "num_accepted_tokens"
BAD_SPECULATION = {
    "num_decode_draft_tokens_cpu has 5 entries for 6 requests": {DRAFTS: int32([-1, 2, -1, 1, -1])},
    "request 0 has -2 draft tokens": {DRAFTS: int32([-2, 2, -1, 1, -1, -1])},
    "request 3 has 2 tokens in this step and 2 draft tokens": {
        DRAFTS: int32([-1, 2, -1, 2, -1, -1])
    },
    "request 5 has 0 tokens in this step and 0 draft tokens": {
        DRAFTS: int32([-1, 2, -1, 1, -1, 0])
    },
    "request 4 has 3 draft tokens, and state_indices 3 columns": {
        DRAFTS: int32([-1, 2, -1, 1, 3, -1])
    },
    "num_decode_draft_tokens_cpu is on": {DRAFTS: lambda x: x.to(current().device)},
    "num_decode_draft_tokens_cpu is float32": {DRAFTS: torch.zeros(6)},
    "num_accepted_tokens is None, and request 1 is speculative": {ACCEPTED: None},
    r"num_accepted_tokens is torch.int32 \[5\]": {ACCEPTED: lambda x: x[:5]},
    "num_accepted_tokens is torch.int64": {ACCEPTED: lambda x: x.long()},
    r"num_accepted_tokens is torch.int32 \[6\] on cpu": {ACCEPTED: lambda x: x.cpu()},
}


@IN_ALL_WAYS
@pytest.mark.parametrize("message", BAD_SPECULATION)
def test_speculation_that_does_not_fit_is_refused(accelerator, message, tables):
    common, given = MIXED.common(accelerator), MIXED.speculation(accelerator)
    bad = changed(given, BAD_SPECULATION[message])
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
