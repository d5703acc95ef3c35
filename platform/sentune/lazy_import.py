"""What makes a process of sentune's own start sooner: late imports, rare garbage collections."""

from __future__ import annotations

import gc
import importlib
from typing import Any


class LazyModule:
    """A module that takes seconds to import, for a process that may do without it.

    Assign it beside the import that a type checker sees::

        if TYPE_CHECKING:
            import torch
        else:
            torch = LazyModule("torch")
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)

    def __reduce__(self) -> tuple[type[LazyModule], tuple[str]]:
        return LazyModule, (self._name,)


_USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """Look for unreachable cycles seventy times less often than Python does by itself.

    For a process that is sentune's own. Importing torch, transformers, Ray and MLflow makes objects
    that stay; looking through them again and again took a twelfth of a small study's driver.
    """
    gc.set_threshold(50_000, 20, 20)


def collect_as_usual() -> None:
    """Look for unreachable cycles as often as Python does by itself: in training they may hold
    tensors."""
    gc.set_threshold(*_USUAL)
