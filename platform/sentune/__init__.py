"""Tunes sentence-embedding methods on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sentune.embedder.embedder import Embedder

__all__ = ["Embedder"]


def __getattr__(name: str) -> object:
    """``from sentune import Embedder`` without making ``import sentune`` load torch."""
    if name == "Embedder":
        from sentune.embedder.embedder import Embedder

        return Embedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
