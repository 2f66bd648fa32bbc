"""A batch's chunk tables as a picture: tokens cut into chunks, and a program for each chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np

from solutions.measure.svg_shapes import (
    BAR,
    FAINT,
    GROUND,
    INK,
    box,
    colour_of,
    counted,
    label,
    line,
)

from ..host_tables import prepare_chunk_indices, prepare_chunk_offsets
from ..rule.chunks import FLA_CHUNK_SIZE

WIDTH, HEIGHT = 760, 298
LEFT, RIGHT = 112, 744
"""Where what is drawn begins and ends, right of the rows' names."""
TOKENS_TOP, CHUNKS_TOP, PROGRAMS_TOP, TABLE_TOP, OFFSETS_TOP = 72, 106, 162, 190, 232
WIDEST_PROGRAM = 72


@dataclass(frozen=True)
class ChunkPicture:
    """Of sequences of so many tokens each, and of chunks of a power of two, 16 or more."""

    lengths: Sequence[int]
    chunk_size: int = FLA_CHUNK_SIZE

    @property
    def text(self) -> str:
        """The tables themselves, one column for each program."""
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
    def svg(self) -> str:
        parts = [
            self._heading(),
            *self._tokens(),
            *self._blind_cuts(),
            *self._chunks(),
            *self._programs(),
            *self._offsets(),
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" role="img" aria-label="{escape(self.text)}" '
            f'style="max-width: 100%; height: auto" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>{"".join(parts)}</svg>'
        )

    @property
    def title(self) -> str:
        return (
            f"{counted(self.num_tokens, 'token')} in {counted(len(self.lengths), 'sequence')}, "
            f"chunks of {self.chunk_size}: {counted(self.num_programs, 'program')}"
        )

    @property
    def blind_pieces(self) -> tuple[int, int]:
        """(pieces if the tokens are cut every chunk_size whosever they are, those of them that
        hold tokens of two sequences)."""
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

    def x_of(self, token: float) -> float:
        return LEFT + (RIGHT - LEFT) * token / max(1, self.num_tokens)

    def tokens_of(self, program: int) -> tuple[int, int]:
        """From the first one to behind the last one."""
        sequence, chunk = self.indices[program]
        first = int(self.starts[sequence]) + int(chunk) * self.chunk_size
        return first, min(first + self.chunk_size, int(self.starts[sequence + 1]))

    def _heading(self) -> str:
        return label(LEFT, 18, self.title, anchor="start", weight=600)

    def _tokens(self) -> Iterator[str]:
        yield row_name(TOKENS_TOP, "tokens")
        without_tokens: dict[float, list[int]] = {}
        for sequence, length in enumerate(self.lengths):
            left, right = self.x_of(self.starts[sequence]), self.x_of(self.starts[sequence + 1])
            if not length:
                without_tokens.setdefault(left, []).append(sequence)
                continue
            colour, middle = colour_of(sequence), (left + right) / 2
            name = f"sequence {sequence}" if right - left > 70 else str(sequence)
            yield label(middle, TOKENS_TOP - 8, name, colour=colour, weight=600)
            yield box(left, right, TOKENS_TOP, colour)
            if right - left > 24:
                yield label(middle, TOKENS_TOP + 15, str(length), colour=GROUND)
        for x, sequences in without_tokens.items():
            yield from self._no_tokens(x, sequences)

    def _no_tokens(self, x: float, sequences: list[int]) -> Iterator[str]:
        """A pin between its neighbours, for one or several."""
        alone = len(sequences) == 1
        colour = colour_of(sequences[0]) if alone else INK
        name = f"sequence{'' if alone else 's'} {', '.join(map(str, sequences))}: no tokens"
        anchor, beside = ("start", x + 5) if x < WIDTH / 2 else ("end", x - 5)
        yield line(x, TOKENS_TOP - 28, x, TOKENS_TOP + BAR, colour, width=2.5)
        yield label(beside, TOKENS_TOP - 24, name, anchor, colour, weight=600)

    def _blind_cuts(self) -> Iterator[str]:
        for token in range(self.chunk_size, self.num_tokens, self.chunk_size):
            x = self.x_of(token)
            yield line(x, TOKENS_TOP - 4, x, TOKENS_TOP + BAR + 4, INK, dashes="3 2")
        pieces, torn = self.blind_pieces
        words = (
            "Pale: rows that a program computes for nothing.",
            f"Dashed: cuts every {self.chunk_size} tokens, whosever they are: "
            f"{counted(pieces, 'piece')}, {torn} with tokens of several sequences.",
        )
        for row, sentence in enumerate(words):
            yield label(LEFT, HEIGHT - 28 + 17 * row, sentence, anchor="start", colour=FAINT)

    def _chunks(self) -> Iterator[str]:
        yield row_name(CHUNKS_TOP, "chunks")
        for program, (sequence, chunk) in enumerate(self.indices):
            first, end = self.tokens_of(program)
            left, right = self.x_of(first), self.x_of(end)
            middle = (left + right) / 2
            colour = colour_of(sequence)
            yield box(left, right, CHUNKS_TOP, colour)
            if right - left > 12:
                yield label(middle, CHUNKS_TOP + 15, str(chunk), colour=GROUND)
            to = LEFT + self.program_width * (program + 0.5)
            yield line(middle, CHUNKS_TOP + BAR, to, PROGRAMS_TOP, colour)

    def _programs(self) -> Iterator[str]:
        """As wide as a chunk's worth of tokens: what is pale is computed for nothing."""
        yield row_name(PROGRAMS_TOP, "programs")
        yield label(LEFT - 12, TABLE_TOP + 10, "sequence", anchor="end")
        yield label(LEFT - 12, TABLE_TOP + 26, "chunk", anchor="end")
        width = self.program_width
        size = 12 if width > 18 else 10
        for program, (sequence, chunk) in enumerate(self.indices):
            left, colour = LEFT + width * program, colour_of(sequence)
            first, end = self.tokens_of(program)
            filled = (end - first) / self.chunk_size
            yield box(left, left + width, PROGRAMS_TOP, colour, opacity=0.25)
            yield box(left, left + width * filled, PROGRAMS_TOP, colour)
            middle = left + width / 2
            yield label(middle, TABLE_TOP + 10, str(sequence), size=size, colour=colour, weight=600)
            yield label(middle, TABLE_TOP + 26, str(chunk), size=size)

    def _offsets(self) -> Iterator[str]:
        """Each where its sequence's programs begin, several in one place where one has none."""
        yield label(LEFT - 12, OFFSETS_TOP + 10, "offsets", anchor="end")
        sequences_at: dict[int, int] = {}
        for offset in self.offsets.tolist():
            sequences_at[offset] = sequences_at.get(offset, 0) + 1
        for offset, times in sequences_at.items():
            x = LEFT + self.program_width * offset
            yield line(x, TABLE_TOP - 2, x, OFFSETS_TOP - 2, FAINT)
            anchor = "start" if not offset else "middle" if x < RIGHT - BAR else "end"
            yield label(x, OFFSETS_TOP + 10, ", ".join([str(offset)] * times), anchor)


def row_name(top: float, name: str) -> str:
    return label(LEFT - 12, top + 15, name, anchor="end")
