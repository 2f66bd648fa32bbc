"""Wrong-looking arguments that are right after all: which are accepted, and why."""

from __future__ import annotations

import json
from pathlib import Path

LIST = Path(__file__).with_name("accepted.json")
"""The path of a file of accepted wrong values, {kind: arguments that accept it}; written by `python
-m tests.wrong_arguments`."""

STRIDES = "it is read by its strides"
CONVERTED = "its numbers are converted, and none is lost"
OTHER_SIZE = "of that size it is another batch, pool or table, as right as the first"
NUMBER = "it is a number that this argument may have"
NO_NUMBER = "a factor: the result is inf or nan, as by PyTorch"
EMPTY = "there is nothing to do, or nothing that anybody asks for"
UNREAD = "only its device or its length is looked at"
BECAUSE = {
    "transposed": STRIDES,
    "with gaps": STRIDES,
    "expanded": STRIDES,
    "turned": OTHER_SIZE,
    "as torch.float64": CONVERTED,
    "as torch.float16": CONVERTED,
    "as torch.int64": CONVERTED,
    "as torch.int32": CONVERTED,
    "as torch.int8": CONVERTED,
    "as torch.bool": CONVERTED,
    "one row more": OTHER_SIZE,
    "one row short": OTHER_SIZE,
    "one more": OTHER_SIZE,
    "one short": OTHER_SIZE,
    "backwards": "the same numbers, in another order",
    "beyond int32": NUMBER,
    "beyond int64": NUMBER,
    "inf": NO_NUMBER,
    "nan": NO_NUMBER,
    "negative": NUMBER,
    "very negative": NUMBER,
    "with a negative in it": NUMBER,
    "with a huge one in it": NUMBER,
    "of two dimensions": "arrays of any shape may travel",
    "an empty dict": EMPTY,
    "with a negative key": "names that are no request's are left out",
    "an empty word": NUMBER,
    "a word": NUMBER,
    "with nothing in it": EMPTY,
    "on another device": UNREAD,
    "as a number": UNREAD,
    "with a dimension more": UNREAD,
    "with a dimension less": UNREAD,
}
"""Reasons why a kind of value is no mistake where it is accepted, by kind."""

BY_OTHERS = {
    "apply_bad_words(logits: as torch.int64)": "filled with -inf, which PyTorch refuses",
    "apply_bad_words(logits: as torch.int32)": "filled with -inf, which PyTorch refuses",
    "apply_bad_words(logits: as torch.int8)": "filled with -inf, which PyTorch refuses",
    "clear_rows(tables: with nothing in it)": "Python's own: of no tables there is no smallest",
    "clear_rows(tables: one short)": "Python's own sentence: of no tables there is no smallest",
    "PagedRequests(seed: negative)": "numpy's own sentence",
    "PagedRequests(seed: very negative)": "numpy's own sentence",
    "swap_blocks_batch(min_n: beyond int32)": "so it is a DMA batch, which names the stream",
    "range_tensors_by_micro_batch(batches: one more)": "it says how many rows are too many",
    "swap_blocks_batch(min_n: beyond int64)": "so it is a DMA batch, which names the stream",
    "prepare_chunk_tables_on_device(num_tokens: beyond int32)": "it says what such tables need",
    "prepare_chunk_tables_on_device(num_tokens: beyond int64)": "it says what such tables need",
    "update_ngram_gpu_tensors_incremental(prev_req_id_to_row: an empty dict)": (
        "it names the request that the map lacks"
    ),
    "update_ngram_gpu_tensors_incremental(prev_req_id_to_row: with a negative key)": (
        "it names the request that the map lacks"
    ),
}
"""Arguments whose wrong value is refused, with nothing changed, by a called function or by a
consequence: {"function(argument: kind)": reason}. A sentence about the argument itself would say no
more."""
UNCHECKED = ("StagingRing.upload", "copy_to_persistent", "physical_to_logical_mapping")
"""Functions whose arguments are not checked: short answers to exercises that use only PyTorch's
operators, which refuse wrong arguments in their own words."""


def accepted() -> dict[str, list[str]]:
    return json.loads(LIST.read_text())
