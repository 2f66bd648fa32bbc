"""Keeps one tensor of starts on the device for each number of prefills.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

import dataclasses

STARTS = {}


def build_prefill_metadata(common, num_draft_tokens_cpu, own=build_prefill_metadata):
    metadata = own(common, num_draft_tokens_cpu)
    starts = metadata.query_start_loc
    if starts is None:
        return metadata
    kept = STARTS.setdefault(len(starts), torch.empty_like(starts)).copy_(starts)
    return dataclasses.replace(metadata, query_start_loc=kept)
