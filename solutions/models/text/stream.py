"""Streams an answer as text, part by part, while the engine steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from solutions.engine.model.config import EngineConfig
from solutions.engine.requests.request import Request, SamplingParams

from .answer import AnswerText
from .tokenizer import Messages, Tokenizer


class StreamsIds(Protocol):
    """The methods of an engine that a stream needs."""

    config: EngineConfig
    num_streamed: int

    def serve_unreported(
        self, prompt: Sequence[int], sampling: SamplingParams, requests: list[Request], /
    ) -> None: ...

    def step_quietly(self) -> None: ...

    def forget(self, request: Request, /) -> None: ...


def stream_text(
    engine: StreamsIds,
    tokenizer: Tokenizer,
    prompt: str | Messages,
    sampling: SamplingParams,
    stop: Sequence[str],
) -> Iterator[str]:
    """Yields the answer's parts. Closing the iterator cancels the request. Errors of the prompt and
    the sampling parameters are raised before the first part."""
    text = AnswerText(tokenizer, checked_stop(stop))
    ends = [*sampling.stop_tokens, *tokenizer.stop_tokens]
    vocab_size = engine.config.model.vocab_size
    # Some tokenizers have more ids than the model has rows.
    wishes = replace(sampling, stop_tokens=[token for token in ends if token < vocab_size])
    ids_that_end = {wishes.stop_token, *wishes.stop_tokens}
    served: list[Request] = []
    try:
        engine.serve_unreported(tokenizer.encode(prompt), wishes, served)
        for ids in _as_they_come(engine, served[0]):
            part = text.add([token for token in ids if token not in ids_that_end])
            if part:
                yield part
            if text.stopped_by is not None:
                return
        if part := text.end():
            yield part
    finally:
        for request in served:
            engine.num_streamed = len(request.generated)
            engine.forget(request)


def _as_they_come(engine: StreamsIds, request: Request) -> Iterator[list[int]]:
    """Yields lists of new ids of a request until it has ended. Steps the engine if there are none;
    steps of other threads may bring ids too."""
    num_read = 0
    while True:
        # Read before the ids, since the last ids are there before the reason.
        has_ended = request.finish_reason is not None
        new = request.generated[num_read:]
        num_read += len(new)
        if new:
            yield new
        elif has_ended:
            return
        else:
            engine.step_quietly()


def checked_stop(stop: Sequence[str]) -> list[str]:
    """Returns the stop strings as a list. Raises TypeError or ValueError for anything else."""
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        raise TypeError(f"stop is {stop!r}: give a list of texts")
    for word in stop:
        if not isinstance(word, str):
            raise TypeError(f"stop has {word!r}: give texts; ids belong to stop_tokens")
        if not word:
            raise ValueError("stop has an empty text, which would end every answer: leave it out")
    return list(stop)
