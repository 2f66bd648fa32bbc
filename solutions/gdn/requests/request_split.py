"""Which requests of a step are decodes, prefills, speculative or padding: counted on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .batch import RequestLengths


@dataclass(frozen=True)
class RequestSplit:
    """The counts are those of GDNAttentionMetadata. `is_speculative`: [num_requests] bool."""

    lengths: RequestLengths
    is_speculative: np.ndarray
    num_decodes: int
    num_prefills: int
    num_prefill_tokens: int
    num_spec_decodes: int
    num_spec_decode_tokens: int
    num_padding: int

    @property
    def num_tokens(self) -> int:
        return self.num_decodes + self.num_prefill_tokens + self.num_spec_decode_tokens

    @property
    def is_mixed(self) -> bool:
        """Whether tokens of both kinds, speculative and not, lie between one another."""
        return bool(self.num_spec_decodes and self.num_prefills)

    @property
    def is_speculative_alone(self) -> bool:
        """Whether all others are padding, or there are none."""
        return bool(self.num_spec_decodes and not self.num_prefills)

    @property
    def non_spec_query_lens(self) -> np.ndarray:
        """[num_seqs] int64."""
        return self.lengths.query_lens[~self.is_speculative]


def split_requests(lengths: RequestLengths, is_speculative: np.ndarray) -> RequestSplit:
    """A decode has one token and goes on from a state. From the first request on for which that
    is not so, all are prefills: a decode is one with a single token, and a state.

    Next to speculative requests nothing is counted as a decode.
    """
    query_lens = lengths.query_lens
    num_spec_decodes = int(is_speculative.sum())
    num_spec_decode_tokens = int(query_lens[is_speculative].sum())
    num_other_tokens = int(query_lens.sum()) - num_spec_decode_tokens
    num_decodes = 0 if num_spec_decodes else _leading_decodes(lengths)
    num_prefill_tokens = num_other_tokens - num_decodes
    # Padding stays where it is, at the end: behind prefills it is prefills without tokens.
    num_others = len(query_lens) - num_spec_decodes - num_decodes
    num_prefills, num_padding = (num_others, 0) if num_prefill_tokens else (0, num_others)
    return RequestSplit(
        lengths,
        is_speculative,
        num_decodes,
        num_prefills,
        num_prefill_tokens,
        num_spec_decodes,
        num_spec_decode_tokens,
        num_padding,
    )


def _leading_decodes(lengths: RequestLengths) -> int:
    # A prompt of one token is none: the kernels of a decode always go on from the slot's state,
    # which here is that of whoever had the slot before.
    is_decode = (lengths.query_lens == 1) & (lengths.num_computed > 0)
    return int(np.argmin(np.append(is_decode, False)))


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """[n + 1] int32: where each of so many tokens starts, then the end of the last one."""
    starts = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    return starts
