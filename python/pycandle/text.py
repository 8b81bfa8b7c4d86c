"""Tokenizers and chat templates. Needs neither NumPy nor torch.

tokenizer = pycandle.Tokenizer.from_file("tokenizer.json")
encoding = tokenizer.encode("Hello")
encoding.ids, encoding.offsets, encoding.tokens
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from . import _core
from ._core import Encoding, Tokenizer, TokenStream

__all__ = ["ChatTemplate", "Encoding", "TokenStream", "Tokenizer"]


class ChatTemplate:
    """The Jinja of a tokenizer_config.json, run without Jinja."""

    def __init__(self, source: str) -> None:
        self._core = _core.ChatTemplate(source)

    @classmethod
    def from_config(cls, path: str | os.PathLike, name: str = "default") -> ChatTemplate:
        """The template of a tokenizer_config.json, with the special tokens that the file names."""
        made = cls("")
        made._core = _core.ChatTemplate.from_config(Path(path), name)
        return made

    def render(self, messages: list[dict[str, Any]], **variables: Any) -> str:
        """The prompt. `variables` are others that the template uses: add_generation_prompt=True, tools=[…]."""
        return self._core.render(json.dumps({"messages": messages, **variables}))
