"""Reduces the start-up time of processes: lazy imports, and fewer garbage collections."""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING, Any


class LazyModule:
    """A module that is imported on first use of an attribute.

    Assign it next to an import for type checkers::

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


if TYPE_CHECKING:
    import torch as torch
    import transformers as transformers
else:
    torch, transformers = LazyModule("torch"), LazyModule("transformers")

_USUAL = gc.get_threshold()


def collect_rarely() -> None:
    """Run the garbage collector seventy times less often than by default.

    Call it only in processes that sentune starts. Imports of torch, transformers, Ray and MLflow
    create many long-lived objects; scanning them took a twelfth of the time of a small study's
    driver.
    """
    gc.set_threshold(50_000, 20, 20)


def collect_as_usual() -> None:
    """Run the garbage collector as often as by default, because cycles may hold tensors."""
    gc.set_threshold(*_USUAL)
