"""One step's batch as a scheduler makes it: numbers on the host, checked before they are
uploaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .limits import Limits


@dataclass(frozen=True)
class ScheduledBatch:
    """A step's batch of R requests on the host, in the order of their tokens. All arrays are
    integers."""

    token_ids: np.ndarray
    """[num_tokens]: the token ids of the first request, then those of the next one, and so on."""
    query_lens: np.ndarray
    """[R]: how many tokens each request runs in this step; 0 for requests that pad the batch, which
    come last."""
    seq_lens: np.ndarray
    """[R]: length of each request, its tokens computed before and those of this step. 0 for
    padding."""
    block_table: np.ndarray
    """[R, C]: the blocks of each request, in order, then arbitrary integers."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens that this step runs, of all requests."""
        return len(self.token_ids)

    @property
    def max_seq_len(self) -> int:
        """Length of the longest request in tokens, those computed before included."""
        return int(self.seq_lens.max(initial=0))

    @cached_property
    def query_start_loc(self) -> np.ndarray:
        """[R + 1] int32: where each request's tokens start in the batch, then where the last
        request's end."""
        starts = np.zeros(len(self.query_lens) + 1, np.int32)
        np.cumsum(self.query_lens, out=starts[1:])
        return starts

    @cached_property
    def row_of_token(self) -> np.ndarray:
        """[num_tokens]: the request of each token."""
        return np.repeat(np.arange(len(self.query_lens)), self.query_lens)

    @cached_property
    def positions(self) -> np.ndarray:
        """[num_tokens] int32: the position of each token in its request."""
        first_positions = self.seq_lens - self.query_lens - self.query_start_loc[:-1]
        positions = np.arange(self.num_tokens) + first_positions[self.row_of_token]
        return positions.astype(np.int32)

    def slot_mapping(self, block_size: int) -> np.ndarray:
        """Returns the slot of the KV cache for each token's key and value, [num_tokens] int32."""
        page, place = np.divmod(self.positions, block_size)
        blocks = self.block_table[self.row_of_token, page]
        return (blocks * np.int32(block_size) + place).astype(np.int32, copy=False)

    def check(self, limits: Limits, vocab_size: int | None = None) -> None:
        """Raises ValueError for a batch that can't exist, or that is larger than the limits: on a
        device its numbers would be addresses. Token ids are checked if `vocab_size` is given."""
        self._check_shapes()
        self._check_sizes(limits)
        self._check_lengths(limits)
        self._check_blocks(limits)
        self._check_slots(limits)
        if vocab_size is not None:
            self._check_tokens(vocab_size)

    def _check_shapes(self) -> None:
        num_reqs = len(self.query_lens)
        arrays = {
            "token_ids": (self.token_ids, 1, "[num_tokens]"),
            "query_lens": (self.query_lens, 1, f"[{num_reqs}]"),
            "seq_lens": (self.seq_lens, 1, f"[{num_reqs}]"),
            "block_table": (self.block_table, 2, f"[{num_reqs}, blocks]"),
        }
        for name, (array, dimensions, shape) in arrays.items():
            has_rows = array.ndim == dimensions and (name == "token_ids" or len(array) == num_reqs)
            if not has_rows or array.dtype.kind != "i":
                raise ValueError(
                    f"{name} is {array.dtype} {list(array.shape)}: make it signed integers {shape}"
                )

    def _check_sizes(self, limits: Limits) -> None:
        num_reqs, num_tokens = len(self.query_lens), int(self.query_lens.sum())
        if num_reqs > limits.max_num_seqs:
            raise ValueError(
                f"{num_reqs} requests in a step: max_num_seqs is {limits.max_num_seqs}, leave some "
                "for the next step"
            )
        if num_tokens > limits.max_num_batched_tokens:
            raise ValueError(
                f"{num_tokens} tokens in a step: max_num_batched_tokens is "
                f"{limits.max_num_batched_tokens}, give a long prompt several steps"
            )
        if self.num_tokens != num_tokens:
            raise ValueError(
                f"{self.num_tokens} token ids for query_lens that sum to {num_tokens}: give each "
                "token one"
            )
        if self.block_table.shape[1] > limits.pages_per_seq:
            raise ValueError(
                f"a block table of {self.block_table.shape[1]} columns: max_model_len "
                f"{limits.max_model_len} needs {limits.pages_per_seq}, leave out the others"
            )

    def _check_lengths(self, limits: Limits) -> None:
        query_lens, seq_lens = self.query_lens, self.seq_lens
        if (at := _first(query_lens < 0)) is not None:
            raise ValueError(
                f"request {at} has {query_lens[at]} tokens in this step: it takes 0 or more"
            )
        if (at := _first(seq_lens < query_lens)) is not None:
            raise ValueError(
                f"request {at} has {query_lens[at]} tokens in this step and {seq_lens[at]} in all "
                "(seq_lens): count those of this step too"
            )
        is_padding = query_lens == 0
        if (at := _first(is_padding & (seq_lens > 0))) is not None:
            raise ValueError(
                f"request {at} has {seq_lens[at]} tokens and none in this step: leave it out, or "
                "make its length 0 if it pads the batch"
            )
        if (at := _first(is_padding[:-1] & ~is_padding[1:])) is not None:
            raise ValueError(
                f"request {at} has no tokens and comes before request {at + 1}, which has "
                f"{query_lens[at + 1]}: requests without tokens pad a batch, put them last"
            )
        if (at := _first(seq_lens > limits.max_model_len)) is not None:
            raise ValueError(
                f"request {at} has {seq_lens[at]} tokens: max_model_len is "
                f"{limits.max_model_len}, end it there"
            )
        num_columns = self.block_table.shape[1]
        if (at := _first(seq_lens > num_columns * limits.block_size)) is not None:
            raise ValueError(
                f"request {at} has {seq_lens[at]} tokens and {num_columns} blocks of "
                f"{limits.block_size}: give it a block for every {limits.block_size} tokens"
            )

    def _check_blocks(self, limits: Limits) -> None:
        table = self.block_table
        num_used = -(-self.seq_lens // limits.block_size)
        # int32, since a table can be a megabyte.
        columns = np.arange(table.shape[1], dtype=np.int32)
        is_wrong = columns < num_used.astype(np.int32)[:, None]
        is_wrong &= (table < 1) | (table >= limits.num_gpu_blocks)
        if (place := _first(is_wrong.reshape(-1))) is not None:
            at, column = divmod(place, table.shape[1])
            raise ValueError(
                f"request {at} has block {table[at, column]} in column {column}: blocks of "
                f"requests are 1 to {limits.num_gpu_blocks - 1}, block 0 belongs to no request"
            )

    def _check_slots(self, limits: Limits) -> None:
        """Raises ValueError if two tokens would be written to one slot. Requests may share blocks
        that they only read."""
        slots = self.slot_mapping(limits.block_size)
        order = np.argsort(slots, kind="stable")
        if (place := _first(np.diff(slots[order]) == 0)) is not None:
            pair = order[place : place + 2]
            one, other = np.searchsorted(self.query_start_loc, pair, side="right") - 1
            at = self.positions[pair]
            raise ValueError(
                f"request {one} writes its token {at[0]}, and request {other} its token {at[1]}, "
                f"to the same place of block {slots[pair[0]] // limits.block_size}: give one of "
                "them a block of its own"
            )

    def _check_tokens(self, vocab_size: int) -> None:
        if (at := _first((self.token_ids < 0) | (self.token_ids >= vocab_size))) is not None:
            raise ValueError(
                f"token {at} of the step has id {self.token_ids[at]}: the vocabulary has 0 to "
                f"{vocab_size - 1}"
            )


def _first(is_wrong: np.ndarray) -> int | None:
    """Returns the index of the first True in `is_wrong`, or None if there is no True."""
    return int(np.argmax(is_wrong)) if is_wrong.any() else None
