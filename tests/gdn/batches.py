"""Batches from plain lists: a few numbers for each request, and everything else follows from
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from hypothesis import strategies as st

from solutions.gdn import CommonAttentionMetadata
from solutions.gdn.metadata import GDNAttentionMetadata, GDNAttentionMetadataBuilder
from solutions.pinned_h2d import StagingRing
from solutions.sync_free.model.conv_chunks import PAD_SLOT

TABLES = ["host", "device", None]
COMPUTED_BEFORE = 5
"""The number of tokens that were computed before, for a request that continues from a state."""


@dataclass(frozen=True)
class Requests:
    """The requests of a batch as lists, one entry for each request in the batch's order, padding
    included. All lists in `slots` have the same length."""

    query_lens: list[int]
    computed: list[int]
    slots: list[list[int]]
    drafts: list[int]
    """The number of draft tokens of each request; -1 for a request that isn't speculative."""
    accepted: list[int]

    @classmethod
    def of(
        cls,
        query_lens: Sequence[int],
        computed: Sequence[int] | None = None,
        slots: Sequence[int | Sequence[int]] | None = None,
        drafts: Sequence[int] | None = None,
        padding: int = 0,
    ) -> Requests:
        """Returns requests from the arguments of `make_batch`."""
        drafts = [-1] * len(query_lens) if drafts is None else list(drafts)
        if computed is None:
            computed = [
                COMPUTED_BEFORE if length == 1 or draft >= 0 else 0
                for length, draft in zip(query_lens, drafts, strict=True)
            ]
        if slots is None:
            slots = slots_in_order(drafts)
        rows = [list(row) if isinstance(row, Sequence) else [row] for row in slots]
        columns = 1 + max([0, *drafts])
        pads = [0] * padding
        return cls(
            query_lens=[*query_lens, *pads],
            computed=[*computed, *pads],
            slots=[row + [PAD_SLOT] * (columns - len(row)) for row in [*rows, *([[]] * padding)]],
            drafts=[*drafts, *([-1] * padding)],
            accepted=[
                1 + row % (1 + draft) if draft >= 0 else 1 for row, draft in enumerate(drafts)
            ]
            + pads,
        )

    def padded(self, padding: int) -> Requests:
        return Requests.of(self.query_lens, self.computed, self.slots, self.drafts, padding)

    @property
    def starts(self) -> list[int]:
        return [0, *accumulate(self.query_lens)]

    @property
    def seq_lens(self) -> list[int]:
        return [done + new for done, new in zip(self.computed, self.query_lens, strict=True)]

    def common(self, accelerator) -> CommonAttentionMetadata:
        starts, seq_lens = int32(self.starts), int32(self.seq_lens)
        columns = len(self.slots[0]) if self.slots else 1
        return CommonAttentionMetadata(
            query_start_loc=starts.to(accelerator.device),
            query_start_loc_cpu=starts,
            seq_lens=seq_lens.to(accelerator.device),
            seq_lens_cpu=seq_lens,
            state_indices=int32(self.slots).view(-1, columns).to(accelerator.device),
            num_actual_tokens=self.starts[-1],
        )

    def speculation(self, accelerator) -> dict[str, torch.Tensor]:
        """Returns {name: tensor} with the further arguments of `build` for draft tokens; empty if
        no request is speculative."""
        if max(self.drafts, default=-1) < 0:
            return {}
        return {
            "num_accepted_tokens": int32(self.accepted).to(accelerator.device),
            "num_decode_draft_tokens_cpu": int32(self.drafts),
        }


def make_batch(
    accelerator,
    query_lens: Sequence[int],
    computed: Sequence[int] | None = None,
    slots: Sequence[int | Sequence[int]] | None = None,
    drafts: Sequence[int] | None = None,
    padding: int = 0,
) -> CommonAttentionMetadata:
    """Returns a batch as a scheduler makes it.

    query_lens   tokens of each request in this step, without padding
    computed     tokens computed before; by default COMPUTED_BEFORE for a request of one token and
                 for a speculative one, 0 for any other
    slots        the slot of each request's state, or its slots; by default one after another, and
                 `1 + drafts` for a speculative request
    drafts       draft tokens of each request, -1 for one that isn't speculative; `speculation`
                 makes `build`'s arguments from them
    padding      requests without tokens or slots, at the end
    """
    return Requests.of(query_lens, computed, slots, drafts, padding).common(accelerator)


def speculation(accelerator, drafts: Sequence[int], padding: int = 0) -> dict[str, torch.Tensor]:
    """Returns {"num_accepted_tokens", "num_decode_draft_tokens_cpu"}: the further arguments of
    `build` for a batch of `make_batch` with these drafts and padding."""
    query_lens = [1 + max(draft, 0) for draft in drafts]
    return Requests.of(query_lens, drafts=drafts, padding=padding).speculation(accelerator)


def slots_in_order(drafts: Sequence[int]) -> list[list[int]]:
    counts = [1 + max(draft, 0) for draft in drafts]
    ends = list(accumulate(counts))
    return [list(range(end - count, end)) for end, count in zip(ends, counts, strict=True)]


def int32(numbers: list) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def build(
    accelerator,
    requests: Requests,
    tables: str | None = "host",
    ring: StagingRing | None = None,
) -> GDNAttentionMetadata:
    return call_of(accelerator, requests, tables, ring)()


def call_of(
    accelerator,
    requests: Requests,
    tables: str | None = "host",
    ring: StagingRing | None = None,
) -> Callable[[], GDNAttentionMetadata]:
    """Returns a function without arguments that builds the requests' metadata; its inputs are on
    the device already."""
    builder = GDNAttentionMetadataBuilder(accelerator.device, tables, ring)
    common, given = requests.common(accelerator), requests.speculation(accelerator)
    return lambda: builder.build(common, **given)


@st.composite
def some_requests(draw) -> Requests:
    """Draws decodes, one-token prompts, prefills and speculative requests in any order, then
    padding."""
    kinds = draw(st.lists(st.sampled_from(["decode", "prefill", "speculative"]), max_size=7))
    if draw(st.booleans()):
        kinds = sorted(kinds)  # schedulers put requests with a state first
    query_lens, computed, drafts = [], [], []
    for kind in kinds:
        is_speculative = kind == "speculative"
        drafts.append(draw(st.integers(0, 3)) if is_speculative else -1)
        lengths = st.sampled_from([1, 2, 7, 8, 9, 63, 64, 65, 129])
        one = 1 + max(drafts[-1], 0)
        query_lens.append(draw(lengths) if kind == "prefill" else one)
        computed.append(draw(st.sampled_from([0, 3])) if kind == "prefill" else 6)
    padding = draw(st.integers(0, 2))
    return Requests.of(query_lens, computed, drafts=drafts, padding=padding)


KINDS = {
    "decodes": Requests.of([1, 1, 1]),
    "one decode": Requests.of([1]),
    "prefills": Requests.of([512, 300]),
    "prefills that go on from a state": Requests.of([70, 64, 1, 9], [5, 0, 1, 0]),
    "3 decodes and 2 prefills": Requests.of([1, 1, 1, 512, 300]),
    "4 decodes and 2 prefills": Requests.of([1, 1, 1, 1, 64, 5]),
    "decodes and a prefill that goes on": Requests.of([1, 1, 65, 3], [9, 1, 64, 0]),
    "a decode behind a prefill": Requests.of([1, 65, 1]),
    "speculative": Requests.of([3, 1, 4], drafts=[2, 0, 3]),
    "speculative, then decodes, then prefills": Requests.of(
        [3, 3, 1, 1, 65, 7], drafts=[2, 2, -1, -1, -1, -1]
    ),
    "speculative and decodes": Requests.of([3, 1, 4], drafts=[2, -1, 3]),
    "speculative and prefills": Requests.of([65, 3, 64], [8, 5, 0], drafts=[-1, 2, -1]),
    "every other one speculative": Requests.of([1, 1, 9, 4, 1, 2], drafts=[-1, 0, -1, 3, -1, 1]),
    "nobody": Requests.of([]),
}
MIXED = Requests.of([1, 3, 65, 2, 4], drafts=[-1, 2, -1, 1, -1], padding=1)
