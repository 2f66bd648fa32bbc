"""A batch's chunk tables as a picture: tokens cut into chunks, and a program for each chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from solutions.pictures.sheet import BAR, FAINT, INK, Sheet, colour_of, counted

from ..host_tables import prepare_chunk_indices, prepare_chunk_offsets
from ..rule.chunks import FLA_CHUNK_SIZE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 760, 298
LEFT, RIGHT = 112, 744
"""Left and right end of the drawing in CSS pixels. The rows' names are to the left of it."""
TOKENS_TOP, CHUNKS_TOP, PROGRAMS_TOP, TABLE_TOP, OFFSETS_TOP = 72, 106, 162, 190, 232
ROW_NAMES = {
    "tokens": TOKENS_TOP + 15,
    "chunks": CHUNKS_TOP + 15,
    "programs": PROGRAMS_TOP + 15,
    "sequence": TABLE_TOP + 10,
    "chunk": TABLE_TOP + 26,
    "offsets": OFFSETS_TOP + 10,
}
WIDEST_PROGRAM = 72
PALE = 0.25
"""Opacity of the part of a program's chunk that has no tokens."""


@dataclass(frozen=True)
class ChunkPicture:
    """A picture of a batch: sequences of `lengths` tokens, cut into chunks of `chunk_size`, a power
    of two of at least 16, with a program for each chunk."""

    lengths: Sequence[int]
    chunk_size: int = FLA_CHUNK_SIZE
    script: ClassVar[str] = "chunk_picture"
    """The name of the file that draws the same on the site."""

    @property
    def text(self) -> str:
        """The chunk tables as text, with one column for each program."""
        rows = {
            "program": list(range(self.num_programs)),
            "sequence": self.indices[:, 0].tolist(),
            "chunk": self.indices[:, 1].tolist(),
        }
        width = max((len(str(number)) for row in rows.values() for number in row), default=1)
        lines = [
            f"{name:14}{' '.join(f'{number:{width}}' for number in row)}".rstrip()
            for name, row in rows.items()
        ]
        offsets = " ".join(map(str, self.offsets))
        return "\n".join([self.title, *lines, f"{'offsets':14}{offsets}"])

    @property
    def figure(self) -> Figure:
        return self.sheet.figure

    @property
    def sheet(self) -> Sheet:
        sheet = Sheet(WIDTH, HEIGHT, self.text)
        sheet.label(LEFT, 18, self.title, "left", bold=True)
        for name, y in ROW_NAMES.items():
            sheet.label(LEFT - 12, y, name, "right")
        self._draw_tokens(sheet)
        self._draw_blind_cuts(sheet)
        self._draw_chunks(sheet)
        self._draw_programs(sheet)
        self._draw_offsets(sheet)
        return sheet

    @property
    def title(self) -> str:
        return (
            f"{counted(self.num_tokens, 'token')} in {counted(len(self.lengths), 'sequence')}, "
            f"chunks of {self.chunk_size}: {counted(self.num_programs, 'program')}"
        )

    @property
    def blind_pieces(self) -> tuple[int, int]:
        """(number of pieces, how many of them have tokens of two or more sequences) if the tokens
        were cut every `chunk_size` tokens, whatever sequence they belong to."""
        pieces = range(0, self.num_tokens, self.chunk_size)
        borders = {int(start) for start in self.starts if 0 < start < self.num_tokens}
        torn = sum(
            any(piece < border < piece + self.chunk_size for border in borders) for piece in pieces
        )
        return len(pieces), torn

    @cached_property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @cached_property
    def indices(self) -> np.ndarray:
        return prepare_chunk_indices(self.starts, self.chunk_size).numpy()

    @cached_property
    def offsets(self) -> np.ndarray:
        return prepare_chunk_offsets(self.starts, self.chunk_size).numpy()

    @property
    def num_tokens(self) -> int:
        return int(self.starts[-1])

    @property
    def num_programs(self) -> int:
        return len(self.indices)

    @property
    def program_width(self) -> float:
        return min(WIDEST_PROGRAM, (RIGHT - LEFT) / max(1, self.num_programs))

    @property
    def program_lefts(self) -> np.ndarray:
        return LEFT + self.program_width * np.arange(self.num_programs)

    def x_of(self, token: np.ndarray) -> np.ndarray:
        return LEFT + (RIGHT - LEFT) * token / max(1, self.num_tokens)

    @cached_property
    def chunks(self) -> tuple[np.ndarray, np.ndarray]:
        """(first token of each program's chunk, number of tokens in it), both [num_programs]."""
        sequences, chunks = self.indices.T
        firsts = self.starts[sequences] + chunks * self.chunk_size
        return firsts, np.minimum(self.chunk_size, self.starts[sequences + 1] - firsts)

    @property
    def colours(self) -> list[str]:
        """The colour of each program, which is that of its sequence."""
        return [colour_of(sequence) for sequence in self.indices[:, 0]]

    def _draw_tokens(self, sheet: Sheet) -> None:
        edges = self.x_of(self.starts)
        without_tokens: dict[float, list[int]] = {}
        for sequence, (left, width) in enumerate(zip(edges, np.diff(edges), strict=False)):
            if not width:
                without_tokens.setdefault(left, []).append(sequence)
                continue
            colour, name = colour_of(sequence), f"sequence {sequence}" if width > 80 else sequence
            sheet.label(left + width / 2, TOKENS_TOP - 8, name, colour=colour, bold=True)
            sheet.boxes([left], width, TOKENS_TOP, [colour], [self.lengths[sequence]])
        for x, sequences in without_tokens.items():
            self._draw_no_tokens(sheet, x, sequences)

    def _draw_no_tokens(self, sheet: Sheet, x: float, sequences: list[int]) -> None:
        """Draws a pin at `x`, between two neighbours, for the sequences without tokens that are
        there."""
        alone = len(sequences) == 1
        colour = colour_of(sequences[0]) if alone else INK
        name = f"sequence{'' if alone else 's'} {', '.join(map(str, sequences))}: no tokens"
        align, beside = ("left", x + 5) if x < WIDTH / 2 else ("right", x - 5)
        sheet.line((x, TOKENS_TOP - 28), (x, TOKENS_TOP + BAR), colour, width=2.5)
        sheet.label(beside, TOKENS_TOP - 24, name, align, colour, bold=True)

    def _draw_blind_cuts(self, sheet: Sheet) -> None:
        cuts = self.x_of(np.arange(self.chunk_size, self.num_tokens, self.chunk_size))
        for x in cuts:
            sheet.line((x, TOKENS_TOP - 4), (x, TOKENS_TOP + BAR + 4), INK, dashed=True)
        pieces, torn = self.blind_pieces
        sheet.label(
            LEFT,
            HEIGHT - 11,
            "Pale: rows that a program computes for nothing.\n"
            f"Dashed: cuts every {self.chunk_size} tokens, across sequences: "
            f"{counted(pieces, 'piece')}, {torn} with tokens of several sequences.",
            "left",
            FAINT,
        )

    def _draw_chunks(self, sheet: Sheet) -> None:
        """Draws each chunk, with a line to its program."""
        firsts, lengths = self.chunks
        lefts = self.x_of(firsts)
        widths = self.x_of(firsts + lengths) - lefts
        sheet.boxes(lefts, widths, CHUNKS_TOP, self.colours, self.indices[:, 1].tolist())
        middles, targets = lefts + widths / 2, self.program_lefts + self.program_width / 2
        for start, end, colour in zip(middles, targets, self.colours, strict=True):
            sheet.line((start, CHUNKS_TOP + BAR), (end, PROGRAMS_TOP), colour)

    def _draw_programs(self, sheet: Sheet) -> None:
        """Draws each program as wide as a full chunk: the part without tokens is pale, since it is
        computed for nothing."""
        width, lefts = self.program_width, self.program_lefts
        sheet.boxes(lefts, width, PROGRAMS_TOP, [(colour, PALE) for colour in self.colours])
        sheet.boxes(lefts, width * self.chunks[1] / self.chunk_size, PROGRAMS_TOP, self.colours)
        size = 12 if width > 18 else 10
        for (sequence, chunk), left, colour in zip(self.indices, lefts, self.colours, strict=True):
            middle = left + width / 2
            sheet.label(middle, TABLE_TOP + 10, sequence, colour=colour, size=size, bold=True)
            sheet.label(middle, TABLE_TOP + 26, chunk, size=size)

    def _draw_offsets(self, sheet: Sheet) -> None:
        """Draws the number in chunk_offsets of each sequence at the sequence's first program. A
        sequence without programs shares its place with the next sequence."""
        for offset, times in Counter(self.offsets.tolist()).items():
            x = LEFT + self.program_width * offset
            sheet.line((x, TABLE_TOP - 2), (x, OFFSETS_TOP - 2), FAINT)
            align = "left" if not offset else "center" if x < RIGHT - BAR else "right"
            sheet.label(x, OFFSETS_TOP + 10, ", ".join([str(offset)] * times), align)
