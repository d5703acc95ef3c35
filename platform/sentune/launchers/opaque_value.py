"""A value that passes through Tune untouched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class OpaqueValue(Generic[T]):
    """Keeps Tune from copying, resolving or printing what a trial is given.

    Tune copies configurations deeply, writes them into names and logs, and may resolve object
    references in them; a trial's corpus is such a reference.
    """

    value: T

    def __deepcopy__(self, memo: dict[int, Any]) -> OpaqueValue[T]:
        return self

    def __repr__(self) -> str:
        return f"OpaqueValue({type(self.value).__name__})"
