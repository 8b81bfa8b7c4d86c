"""All entries, by source."""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Iterable

from .entry import Entry

SOURCES = ("basics", "torchvision", "timm", "transformers", "torchaudio")


def module_name(source: str) -> str:
    return source if source == "basics" else f"{source}_models"


def entries(sources: Iterable[str] = SOURCES) -> list[Entry]:
    found: list[Entry] = []
    for source in sources:
        found += importlib.import_module(f".{module_name(source)}", __package__).entries()
    names = [entry.key for entry in found]
    assert len(names) == len(set(names)), "an entry's name is its own"
    return found


def matches(entry: Entry, patterns: list[str] | None) -> bool:
    """`=timm/vit` is that one, `*` and `?` match the whole, anything else a part."""
    key = entry.key
    return not patterns or any(p == f"={key}" or p in key or fnmatch.fnmatch(key, p) for p in patterns)
