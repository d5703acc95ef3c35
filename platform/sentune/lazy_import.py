"""Modules that are imported when something of them is first used."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """A module that takes seconds to import, for a process that may do without it.

    Assign it beside the import that a type checker sees::

        if TYPE_CHECKING:
            import torch
        else:
            torch = Later("torch")

    Args:
        name: of the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)

    def __reduce__(self) -> tuple[type[Later], tuple[str]]:
        return Later, (self._name,)
