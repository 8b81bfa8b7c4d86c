"""The releases of torch that recording was tested with: scripts/torch_versions.py runs them, docs/torch-versions.md has the table."""

from __future__ import annotations

import importlib.metadata

TESTED = ("2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15")


def installed() -> str:
    """Asked of the package's metadata, since importing torch takes seconds."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def untested(version: str | None = None) -> str:
    """Why this release (the installed one) may not record as it should; empty for one that was tested."""
    version = version or installed()
    if ".".join(version.split(".")[:2]) in TESTED:
        return ""
    return f"recording was tested with torch {TESTED[0]} to {TESTED[-1]}, not with {version}: it goes on all the same"
