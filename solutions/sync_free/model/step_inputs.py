"""The inputs that a step uploads besides those of its eight sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays

from .tables import RequestTables
from .workload import ScheduledStep


@dataclass(frozen=True)
class SiteInputs:
    """The inputs that a step uploads for itself, besides those of its sites. In `arrays`:

    sequence_lens      [num_requests + 1] int32: tokens of each sequence, that of padding last
    cache_indices      [num_requests + 1] int32: the slot of each sequence's states
    has_initial_state  [num_requests + 1] bool: True where an earlier step has left a state
    query_start_loc    [num_requests + 2] int32: where each sequence begins, and the last one ends
    logits_indices     [num_requests] int32: the last token of each request
    token_places       [num_tokens + num_padding] int64: where this step's tokens lie in the table
    new_places         [n] int64: where the latest tokens of n requests go
    new_tokens         [n] int32: these tokens; requests that just arrived have none
    said_places        [m] int64: the counts of generated tokens that grow by one
    """

    arrays: HostArrays
    recounted: np.ndarray
    """int64 row numbers of the requests that have just arrived or moved to this row, whose tokens
    are counted again."""

    def write_new_tokens(self, on_device: DeviceArrays, tables: RequestTables) -> None:
        """Writes the latest token of each request that didn't just arrive to the table of tokens,
        and adds it to the counts of generated tokens."""
        places, tokens = on_device["new_places"], on_device["new_tokens"]
        tables.token_ids.view(-1).index_copy_(0, places, tokens)
        said = on_device["said_places"]
        ones = torch.ones_like(said, dtype=torch.int32)
        tables.output_bin_counts.view(-1).index_add_(0, said, ones)


def plan_inputs(
    scheduled: ScheduledStep, row_of: Mapping[str, int] | None, vocab_size: int
) -> SiteInputs:
    """Returns the step's own inputs. `row_of` has each request's row in the last step; it is None
    in the first step."""
    rows = np.arange(scheduled.num_requests)
    max_len = scheduled.token_table.shape[1]
    start_loc = scheduled.query_start_loc
    first_place = rows * max_len + scheduled.num_computed
    token_places = np.zeros(scheduled.num_tokens + scheduled.num_padding, dtype=np.int64)
    token_places[: scheduled.num_tokens] = np.arange(scheduled.num_tokens)
    token_places[: scheduled.num_tokens] += np.repeat(
        first_place - start_loc[:-2], scheduled.query_lens
    )
    here = ~scheduled.has_arrived
    last_rows = [(row_of or {}).get(name, -1) for name in scheduled.names]
    stays = here & (rows == np.array(last_rows))
    new_tokens = scheduled.token_table.reshape(-1)[first_place]
    arrays = {
        "sequence_lens": scheduled.sequence_lens,
        "query_start_loc": start_loc,
        "cache_indices": scheduled.cache_indices,
        "has_initial_state": np.append(here, False),
        "logits_indices": start_loc[1:-1] - 1,
        "token_places": token_places,
        "new_places": first_place[here],
        "new_tokens": new_tokens[here],
        "said_places": (rows * vocab_size + new_tokens)[stays],
    }
    return SiteInputs(arrays, np.flatnonzero(~stays))
