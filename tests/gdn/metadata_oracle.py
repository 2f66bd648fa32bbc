"""Expected metadata, computed request by request and token by token in plain Python."""

from __future__ import annotations

from itertools import accumulate

import torch

from solutions.gdn.metadata import GDNAttentionMetadata

from .batches import Requests

CHUNK = 64
CONV_CHUNK = 8

DTYPES = {
    "non_spec_query_start_loc": torch.int32,
    "non_spec_state_indices": torch.int32,
    "has_initial_state": torch.bool,
    "prefill_query_start_loc": torch.int32,
    "prefill_state_indices": torch.int32,
    "prefill_has_initial_state": torch.bool,
    "chunk_indices": torch.int32,
    "chunk_offsets": torch.int64,
    "spec_query_start_loc": torch.int32,
    "spec_state_indices": torch.int32,
    "num_accepted_tokens": torch.int32,
    "spec_token_indices": torch.int64,
    "non_spec_token_indices": torch.int64,
}
"""The dtype of each tensor of the metadata, by name."""


def expect_metadata(
    accelerator, found: GDNAttentionMetadata, requests: Requests, tables: str | None
) -> None:
    """Checks that `found` is the right metadata for these requests. `tables` says where its builder
    makes the chunk tables: on the "host", on the "device", or not at all (None)."""
    counts, lists = expected(requests)
    assert {name: getattr(found, name) for name in counts} == counts
    conv_chunks = lists.pop("conv_chunks")
    if tables is None:
        lists["chunk_indices"] = lists["chunk_offsets"] = None
    for name, dtype in DTYPES.items():
        tensor, right = getattr(found, name), lists[name]
        if right is None:
            assert tensor is None, name
            continue
        assert (tensor.dtype, tensor.device) == (dtype, accelerator.device), name
        assert tensor.is_contiguous(), name
        values = tensor.tolist()
        if name == "chunk_indices":
            values, beyond = values[: len(right)], values[len(right) :]
            assert beyond == [[-1, -1]] * len(beyond)
            assert tables == "device" or not beyond
        assert values == right, name
    expect_conv_metadata(found, conv_chunks, may_have_more_rows=tables == "device")


def expect_conv_metadata(
    found: GDNAttentionMetadata, chunks: list[tuple[int, int]] | None, may_have_more_rows: bool
) -> None:
    if chunks is None:
        assert found.conv_metadata is None
        return
    metadata = found.conv_metadata
    assert metadata.batch_of_chunk.dtype == metadata.chunk_offset.dtype == torch.int32
    assert metadata.batch_of_chunk.is_contiguous() and metadata.chunk_offset.is_contiguous()
    assert len(metadata.batch_of_chunk) == len(metadata.chunk_offset)
    sequences, offsets = metadata.batch_of_chunk.tolist(), metadata.chunk_offset.tolist()
    beyond = sequences[len(chunks) :]
    assert beyond == [-1] * len(beyond)
    assert may_have_more_rows or not beyond
    assert list(zip(sequences, offsets, strict=True))[: len(chunks)] == chunks
    assert metadata.num_seqs == len(found.non_spec_state_indices)
    assert metadata.num_tokens == found.num_decode_tokens + found.num_prefill_tokens


def expected(requests: Requests) -> tuple[dict[str, int], dict[str, list | None]]:
    """Returns ({name: count}, {name: expected list or None}) of the metadata. The list
    "conv_chunks" has the (sequence, offset) of each chunk of the convolution."""
    rows = range(len(requests.query_lens))
    speculative = [row for row in rows if requests.drafts[row] >= 0]
    others = [row for row in rows if requests.drafts[row] < 0]
    tokens = lambda some: sum(requests.query_lens[row] for row in some)
    alone = bool(speculative) and tokens(others) == 0
    mixed = bool(speculative) and not alone

    decodes = []
    for row in [] if speculative else others:
        if requests.query_lens[row] != 1 or requests.computed[row] == 0:
            break
        decodes.append(row)
    rest = [row for row in others if row not in decodes]
    prefills = rest if tokens(rest) else []
    counts = {
        "num_prefills": len(prefills),
        "num_prefill_tokens": tokens(prefills),
        "num_decodes": len(decodes),
        "num_decode_tokens": len(decodes),
        "num_spec_decodes": len(speculative),
        "num_spec_decode_tokens": tokens(speculative),
        "num_actual_tokens": tokens(rows),
        "num_padding": 0 if prefills else len(rest),
    }
    lists = dict.fromkeys([*DTYPES, "conv_chunks"])
    if not alone:
        lists |= of_sequences(requests, others)
    if prefills:
        lists |= of_prefills(requests, prefills)
    if speculative:
        lists |= of_speculative(requests, list(rows) if alone else speculative)
    if mixed:
        lists["spec_token_indices"] = places(requests, speculative)
        lists["non_spec_token_indices"] = places(requests, others)
    return counts, lists


def of_sequences(requests: Requests, rows: list[int]) -> dict[str, list]:
    lengths = [requests.query_lens[row] for row in rows]
    return {
        "non_spec_query_start_loc": [0, *accumulate(lengths)],
        "non_spec_state_indices": [requests.slots[row][0] for row in rows],
        "has_initial_state": [requests.computed[row] > 0 for row in rows],
        "conv_chunks": [
            (sequence, offset)
            for sequence, length in enumerate(lengths)
            for offset in range(0, length, CONV_CHUNK)
        ],
    }


def of_prefills(requests: Requests, rows: list[int]) -> dict[str, list]:
    lengths = [requests.query_lens[row] for row in rows]
    chunks = [range(-(-length // CHUNK)) for length in lengths]
    return {
        "prefill_query_start_loc": [0, *accumulate(lengths)],
        "prefill_state_indices": [requests.slots[row][0] for row in rows],
        "prefill_has_initial_state": [requests.computed[row] > 0 for row in rows],
        "chunk_indices": [[seq, chunk] for seq, those in enumerate(chunks) for chunk in those],
        "chunk_offsets": [0, *accumulate(len(those) for those in chunks)],
    }


def of_speculative(requests: Requests, rows: list[int]) -> dict[str, list]:
    return {
        "spec_query_start_loc": [0, *accumulate(requests.query_lens[row] for row in rows)],
        "spec_state_indices": [requests.slots[row] for row in rows],
        "num_accepted_tokens": [requests.accepted[row] for row in rows],
    }


def places(requests: Requests, rows: list[int]) -> list[int]:
    """Returns the indices in the batch of all tokens of the requests in these rows."""
    starts = requests.starts
    return [place for row in rows for place in range(starts[row], starts[row + 1])]
