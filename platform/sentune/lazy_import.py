"""Modules that are imported when something of them is first used."""

from __future__ import annotations

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
