"""Streams an answer as text, part by part, while the engine steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from solutions.engine.engine import Engine
from solutions.engine.requests.request import Request, SamplingParams

from .answer import AnswerText
from .tokenizer import BY_DEFAULT, Encoding, Prompt, Tokenizer


def stream_text(
    engine: Engine,
    tokenizer: Tokenizer,
    prompt: Prompt,
    sampling: SamplingParams,
    stop: Sequence[str],
    served: list[Request] | None = None,
    how: Encoding = BY_DEFAULT,
) -> Iterator[str]:
    """Yields the answer's parts. Closing the iterator cancels the request, which `served` gets.
    Errors of the prompt and the sampling parameters are raised before the first part."""
    text = AnswerText(tokenizer, checked_stop(stop))
    ends = [*sampling.stop_tokens, *tokenizer.stop_tokens]
    vocab_size = engine.config.model.vocab_size
    # Some tokenizers have more ids than the model has rows.
    wishes = replace(sampling, stop_tokens=[token for token in ends if token < vocab_size])
    ids_that_end = {wishes.stop_token, *wishes.stop_tokens}
    served = [] if served is None else served
    try:
        engine.serve_unreported(tokenizer.encode(prompt, how), wishes, served)
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
            engine.forget(request)


def _as_they_come(engine: Engine, request: Request) -> Iterator[list[int]]:
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
            engine.step(reports=False)


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
