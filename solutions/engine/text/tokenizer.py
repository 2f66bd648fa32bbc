"""A checkpoint's tokenizer, with its chat template, by transformers: imported when it is asked
for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from debubble.contract.installed import installed

Messages = Sequence[Mapping[str, str]]
"""What was said so far: [{"role": "user", "content": "Hello"}]"""


class Tokenizer:
    """Of one checkpoint. ImportError without transformers; ValueError, which names the file, for a
    folder whose tokenizer is missing or broken."""

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
            # Whatever the libraries say of it, and in however many lines.
            reason = str(error).partition("\n")[0][:120]
            raise ValueError(f"{path} is no tokenizer: {reason}") from None

    @property
    def num_ids(self) -> int:
        """One more than the largest id that it may give."""
        return len(self._tokenizer)

    @property
    def stop_tokens(self) -> list[int]:
        """Ids that end an answer, by generation_config.json, config.json and the tokenizer."""
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

    def encode(self, prompt: str | Messages) -> list[int]:
        """Ids of a text as it is, or of messages by the chat template. ValueError for an empty one,
        for messages where there is no template, and for such that it refuses."""
        if isinstance(prompt, str):
            ids = self._tokenizer.encode(prompt)
        else:
            ids = self._tokenizer.encode(self._templated(prompt), add_special_tokens=False)
        if not ids:
            raise ValueError(f"the prompt {prompt!r} has no tokens: give it a word at least")
        return list(ids)

    def has_chat_template(self) -> bool:
        return bool(self._tokenizer.chat_template)

    def _templated(self, messages: Messages) -> str:
        if not self.has_chat_template():
            raise ValueError(f"{self.folder} has no chat template: give a text, not messages")
        try:
            return self._tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
            )
        except Exception as error:
            reason = str(error).partition("\n")[0][:160]
            raise ValueError(f"the chat template of {self.folder} fails: {reason}") from None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without those that mean no text."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)
