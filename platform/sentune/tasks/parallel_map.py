"""How a task maps a function over independent parts of its work: here, or over a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

Part = TypeVar("Part")
Found = TypeVar("Found")

ParallelMap: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""As ``map``: one result for each part, in order. Work and parts can be pickled."""


def in_order(work: Callable[[Part], Found], parts: Sequence[Part]) -> Iterator[Found]:
    """One part after the other, in this process."""
    return map(work, parts)
