"""Sends starts, states and rows, and makes the offsets on the device from the starts."""

from ..chunk_tables import prepare_chunk_indices, prepare_chunk_offsets


def build_prefill_metadata(common, num_draft_tokens_cpu):
    device = common.query_start_loc.device
    lengths = checked_lengths(common, device)
    split = split_requests(lengths, host_integers("drafts", num_draft_tokens_cpu) >= 0)
    counts = split.num_decodes, split.num_prefills, split.num_prefill_tokens
    if not split.num_prefills:
        return PrefillMetadata(*counts)
    starts = starts_of(split.non_spec_query_lens[split.num_decodes :])
    has_state = split.lengths.num_computed[~split.is_speculative][split.num_decodes :] > 0
    rows = prepare_chunk_indices(torch.from_numpy(starts)).numpy()
    sent = upload_packed({"starts": starts, "has_state": has_state, "rows": rows}, device)
    offsets = prepare_chunk_offsets(sent["starts"])
    return PrefillMetadata(*counts, sent["starts"], sent["has_state"], sent["rows"], offsets)
