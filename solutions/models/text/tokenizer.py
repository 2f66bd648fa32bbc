"""A checkpoint's tokenizer, with its chat template, by transformers, which is imported on first
use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from debubble.contract.packages.installed import installed
from solutions.common.host_integers import is_integer

Messages = Sequence[Mapping[str, str]]
"""A conversation: [{"role": "user", "content": "Hello"}]"""
Prompt = str | Messages | Sequence[int]
"""A text, a conversation for the chat template, or ids."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How a prompt becomes ids. Ids stay as they are."""

    special_tokens: bool = True
    """True if a text gets the tokenizer's special tokens, such as the one that begins it."""
    chat_template_kwargs: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the chat template, such as {"enable_thinking": False} for Qwen3."""


BY_DEFAULT = Encoding()


class Tokenizer:
    """The tokenizer of one checkpoint. Raises ImportError without transformers; ValueError, which
    names the file, for a folder whose tokenizer is missing or broken."""

    def __init__(self, folder: Path) -> None:
        if installed("transformers") is None:
            raise ImportError(
                "text needs the tokenizer of transformers: pip install 'transformers>=5.17', or "
                "give the engine ids"
            )
        self.folder = folder
        path = folder / "tokenizer.json"
        if not path.exists():
            raise ValueError(f"{folder} has no tokenizer.json: give the engine ids, or copy it too")
        from transformers import AutoTokenizer

        try:
            json.loads(path.read_text(encoding="utf-8"))
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:
            # Libraries raise errors of many types and many lines.
            reason = str(error).partition("\n")[0][:120]
            raise ValueError(f"{path} is no tokenizer: {reason}") from None

    @property
    def num_ids(self) -> int:
        """The largest id that it may return, plus one."""
        return len(self._tokenizer)

    @property
    def stop_tokens(self) -> list[int]:
        """The ids that end an answer, from generation_config.json, config.json or the tokenizer:
        the first that has any."""
        for name in ("generation_config.json", "config.json"):
            try:
                values = json.loads((self.folder / name).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            found = values.get("eos_token_id") if isinstance(values, dict) else None
            if isinstance(found, int):
                return [found]
            if isinstance(found, list) and found and all(isinstance(each, int) for each in found):
                return list(found)
        last = self._tokenizer.eos_token_id
        return [] if last is None else [int(last)]

    def encode(self, prompt: Prompt, how: Encoding = BY_DEFAULT) -> list[int]:
        """Returns the ids of a prompt: of a text as it is, of messages by the chat template. A text
        that begins with the token which begins a text gets no second one. Raises ValueError for an
        empty prompt, for messages without a template, and for messages or arguments that the
        template refuses."""
        if isinstance(prompt, str):
            ids = self._tokenizer.encode(prompt, add_special_tokens=how.special_tokens)
            first = self._tokenizer.bos_token_id
            if first is not None and list(ids[:2]) == [first, first]:
                ids = ids[1:]
        elif len(prompt) and is_integer(prompt[0]):
            ids = cast("Sequence[int]", prompt)
        else:
            text = self._templated(cast(Messages, prompt), how.chat_template_kwargs)
            ids = self._tokenizer.encode(text, add_special_tokens=False)
        if not len(ids):
            raise ValueError(f"the prompt {prompt!r} has no tokens: give it a word at least")
        return list(ids)

    def has_chat_template(self) -> bool:
        return bool(self._tokenizer.chat_template)

    def _templated(self, messages: Messages, arguments: Mapping[str, object]) -> str:
        if not self.has_chat_template():
            raise ValueError(f"{self.folder} has no chat template: give a text, not messages")
        try:
            return self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                **{"tokenize": False, "add_generation_prompt": True, **arguments},
            )
        except Exception as error:
            reason = str(error).partition("\n")[0][:160]
            raise ValueError(f"the chat template of {self.folder} fails: {reason}") from None

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, without special tokens."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)
