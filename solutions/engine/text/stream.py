"""An answer as text, part by part, while the engine steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from ..model.config import EngineConfig
from ..requests.request import Request, SamplingParams
from .answer import AnswerText
from .tokenizer import Messages, Tokenizer


class StreamsIds(Protocol):
    """What of an engine a stream needs."""

    config: EngineConfig

    def add_request(self, prompt: Sequence[int], sampling: SamplingParams, /) -> str: ...

    def request(self, request_id: str) -> Request: ...

    def step_quietly(self) -> None: ...

    def forget(self, request_id: str) -> None: ...


def stream_text(
    engine: StreamsIds,
    tokenizer: Tokenizer,
    prompt: str | Messages,
    sampling: SamplingParams,
    stop: Sequence[str],
) -> Iterator[str]:
    """Yields the answer's parts; whoever stops to read cancels the request. Errors of the prompt
    and the wishes come before the first part."""
    words = checked_stop(stop)
    ends = [*sampling.stop_tokens, *tokenizer.stop_tokens]
    vocab_size = engine.config.model.vocab_size
    # Some tokenizers have more ids than the model has rows.
    wishes = replace(sampling, stop_tokens=[token for token in ends if token < vocab_size])
    name = engine.add_request(tokenizer.encode(prompt), wishes)
    request, text, num_read = engine.request(name), AnswerText(tokenizer, words), 0
    ids_that_end = {wishes.stop_token, *wishes.stop_tokens}
    try:
        while num_read < len(request.generated) or request.finish_reason is None:
            if num_read == len(request.generated):
                engine.step_quietly()
                continue
            new = request.generated[num_read:]
            num_read += len(new)
            part = text.add([token for token in new if token not in ids_that_end])
            if part:
                yield part
            if text.stopped_by is not None:
                return
        if part := text.end():
            yield part
    finally:
        engine.forget(name)


def checked_stop(stop: Sequence[str]) -> list[str]:
    """TypeError or ValueError for what are no stop strings."""
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        raise TypeError(f"stop is {stop!r}: give a list of texts")
    for word in stop:
        if not isinstance(word, str):
            raise TypeError(f"stop has {word!r}: give texts; ids belong to stop_tokens")
        if not word:
            raise ValueError("stop has an empty text, which would end every answer: leave it out")
    return list(stop)
