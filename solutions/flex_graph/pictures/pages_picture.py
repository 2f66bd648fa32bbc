"""A step's pages as a picture: where requests have their pages, and the list of each group of
tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from solutions.pictures.sheet import BAR, FAINT, INK, Sheet, colour_of, counted

from ..mask import CAUSAL, Mask
from ..steps.limits import Limits
from ..tables.direct_build import kv_blocks, physical_to_logical_mapping

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 760
LEFT, RIGHT = 96, 744
"""Left and right end of the drawing in CSS pixels. The rows' names are to the left of it."""
TABLES_TOP, CACHE_TOP, TOKENS_TOP, LISTS_TOP = 34, 136, 216, 254
ROW = 28
NULL, NOBODY = "#c4ccd4", "#eef1f4"
"""Colours of block 0, and of blocks and tokens that belong to no request."""
PAGE = 16
NUM_BLOCKS, PAGES_PER_SEQ = 16, 5
MOST_TOKENS = 48
"""The most new tokens of a step in the picture: three groups."""
CAPTION = """\
Grey: block 0, the null block. Pale: of no request, and garbage after a length.
A group: the number of blocks that it reads, their ids, and the -1 after the last."""
CELL = (RIGHT - LEFT) / NUM_BLOCKS


@dataclass(frozen=True)
class PagesPicture:
    """A picture of a step: where its requests have their pages in the cache, and which blocks each
    group of tokens reads. It has up to three requests of at most 80 tokens each, and a cache of 16
    blocks of 16 tokens."""

    seq_lens: Sequence[int]
    """Length of each request in tokens, the new ones included."""
    query_lens: Sequence[int]
    """New tokens of each request, 1 to 48 in all; 0 for a request that is not in the step."""
    order: int = 0
    """The seed by which blocks are shuffled."""
    mask: Mask = CAUSAL
    script: ClassVar[str] = "pages_picture"
    """The name of the file that draws the same on the site."""

    @property
    def text(self) -> str:
        """The picture as text: the block tables, the owner and page of each block of the cache, and
        the blocks that each group reads."""
        lines = [self.title]
        for request, (length, new) in enumerate(zip(self.seq_lens, self.query_lens, strict=True)):
            own = " ".join(map(str, self.pages_of(request)))
            lines.append(f"request {request}: {length} tokens, {new} new, blocks {own}".rstrip())
        for name, row in (("request", self.owners), ("page", self.places)):
            cells = " ".join(f"{'.' if number < 0 else number:>2}" for number in row)
            lines.append(f"{name + ' of block':17}{cells}")
        for group, blocks in enumerate(self.lists):
            listed = " ".join(map(str, [*blocks, -1]))
            lines.append(f"group {group}: {counted(len(blocks), 'block')}: {listed}")
        return "\n".join(lines)

    @property
    def figure(self) -> Figure:
        return self.sheet.figure

    @property
    def sheet(self) -> Sheet:
        sheet = Sheet(WIDTH, self.height, self.text)
        sheet.label(LEFT, 18, self.title, "left", bold=True)
        self._draw_tables(sheet)
        self._draw_cache(sheet)
        self._draw_tokens(sheet)
        self._draw_lists(sheet)
        sheet.label(LEFT, self.height - 8, CAPTION, "left", FAINT)
        return sheet

    @property
    def height(self) -> float:
        return LISTS_TOP + ROW * (MOST_TOKENS // self.limits.q_block) + 40

    @property
    def title(self) -> str:
        in_step = sum(new > 0 for new in self.query_lens)
        return (
            f"{counted(self.num_tokens, 'token')} of {counted(in_step, 'request')} in "
            f"{counted(len(self.lists), 'group')} of {self.limits.q_block}, blocks of {PAGE}"
        )

    @cached_property
    def limits(self) -> Limits:
        return Limits(
            max_num_seqs=len(self.seq_lens),
            max_num_batched_tokens=MOST_TOKENS,
            max_model_len=PAGE * PAGES_PER_SEQ,
            num_gpu_blocks=NUM_BLOCKS,
            block_size=PAGE,
        )

    @property
    def num_tokens(self) -> int:
        return sum(self.query_lens)

    @cached_property
    def requests(self) -> list[int]:
        """The index of each token's request."""
        return np.repeat(np.arange(len(self.query_lens)), self.query_lens).tolist()

    @cached_property
    def block_table(self) -> np.ndarray:
        """[R, PAGES_PER_SEQ] int32: the blocks of each request, in order, then garbage. No block is
        in two rows, except in the garbage."""
        random = np.random.default_rng(self.order)
        table = random.permutation(np.arange(1, NUM_BLOCKS, dtype=np.int32))
        table = table[: len(self.seq_lens) * PAGES_PER_SEQ].reshape(-1, PAGES_PER_SEQ)
        is_garbage = np.arange(PAGES_PER_SEQ) >= -(-np.array(self.seq_lens)[:, None] // PAGE)
        return np.where(is_garbage, np.roll(table, 1, axis=0)[:, ::-1], table)

    def pages_of(self, request: int) -> list[int]:
        used = self.limits.pages_of(self.seq_lens[request])
        return self.block_table[request, :used].tolist()

    @cached_property
    def logical(self) -> np.ndarray:
        """[R, NUM_BLOCKS]: for each request, the index of each block among its pages, or -1."""
        seq_lens = torch.tensor(self.seq_lens, dtype=torch.int32)
        table = torch.from_numpy(self.block_table)
        return physical_to_logical_mapping(table, seq_lens, PAGE, NUM_BLOCKS).numpy()

    @property
    def owners(self) -> list[int]:
        """The request that each block belongs to, or -1 if there is none."""
        return np.where(self.logical.max(0) >= 0, self.logical.argmax(0), -1).tolist()

    @property
    def places(self) -> list[int]:
        """The index of each block among its owner's pages, or -1 if it has no owner."""
        return self.logical.max(0).tolist()

    @cached_property
    def lists(self) -> list[list[int]]:
        """The blocks that each group of tokens reads, without the -1 after them."""
        starts = np.concatenate([[0], np.cumsum(self.query_lens)]).astype(np.int32)
        counts, indices = kv_blocks(
            torch.from_numpy(self.block_table),
            torch.from_numpy(starts),
            torch.tensor(self.seq_lens, dtype=torch.int32),
            torch.tensor(self.requests, dtype=torch.int32),
            self.limits,
            self.mask,
            self.num_tokens,
        )
        return [row[:count] for row, count in zip(indices.tolist(), counts.tolist(), strict=True)]

    def _draw_tables(self, sheet: Sheet) -> None:
        for request, (length, new) in enumerate(zip(self.seq_lens, self.query_lens, strict=True)):
            top, colour = TABLES_TOP + ROW * request, colour_of(request)
            name_row(sheet, top, f"request {request}", colour)
            used = self.limits.pages_of(length)
            colours = [colour] * used + [NOBODY] * (PAGES_PER_SEQ - used)
            draw_row(sheet, top, CELL, colours, self.block_table[request].tolist())
            words = f"{counted(length, 'token')}, {new} new" if new else "not in this step"
            sheet.label(LEFT + CELL * PAGES_PER_SEQ + 10, top + 15, words, "left")

    def _draw_cache(self, sheet: Sheet) -> None:
        name_row(sheet, CACHE_TOP, "KV cache")
        name_row(sheet, CACHE_TOP + BAR + 1, "request")
        name_row(sheet, CACHE_TOP + BAR + 17, "page")
        colours = [NULL, *map(colour_of_owner, self.owners[1:])]
        draw_row(sheet, CACHE_TOP, CELL, colours, range(NUM_BLOCKS))
        for block, (owner, place) in enumerate(zip(self.owners, self.places, strict=True)):
            if owner >= 0:
                middle, colour = LEFT + CELL * (block + 0.5), colours[block]
                sheet.label(middle, CACHE_TOP + BAR + 16, owner, colour=colour, bold=True)
                sheet.label(middle, CACHE_TOP + BAR + 32, place)

    def _draw_tokens(self, sheet: Sheet) -> None:
        """Draws the tokens of each group. The last group is filled up with tokens that belong to no
        request."""
        name_row(sheet, TOKENS_TOP, "tokens")
        width, group = (RIGHT - LEFT) / MOST_TOKENS, self.limits.q_block
        filling = [-1] * (len(self.lists) * group - self.num_tokens)
        draw_row(sheet, TOKENS_TOP, width, list(map(colour_of_owner, self.requests + filling)))
        for number in range(len(self.lists)):
            left = LEFT + width * group * number
            sheet.line((left, TOKENS_TOP - 14), (left, TOKENS_TOP + BAR), INK)
            sheet.label(left + 4, TOKENS_TOP - 5, f"group {number}", "left", FAINT)

    def _draw_lists(self, sheet: Sheet) -> None:
        for group, blocks in enumerate(self.lists):
            top = LISTS_TOP + ROW * group
            name_row(sheet, top, f"group {group}: {len(blocks)}")
            colours = [colour_of(self.owners[block]) for block in blocks]
            draw_row(sheet, top, CELL, colours, blocks)
            sheet.label(LEFT + CELL * (len(blocks) + 0.5), top + 15, -1, colour=FAINT)


def colour_of_owner(request: int) -> str:
    return NOBODY if request < 0 else colour_of(request)


def name_row(sheet: Sheet, top: float, name: str, colour: str = INK) -> None:
    sheet.label(LEFT - 12, top + 15, name, "right", colour)


def draw_row(
    sheet: Sheet, top: float, width: float, colours: Sequence[str], words: Sequence[object] = ()
) -> None:
    sheet.boxes(LEFT + width * np.arange(len(colours)), width, top, colours, words)
