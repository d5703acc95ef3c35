"""Weights of mixed corpora, as they stand among a trial's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PREFIX = "mix_"


def is_weight(setting: str) -> bool:
    """Return whether it is the weight of a corpus."""
    return setting.startswith(PREFIX)


def weight_names(specs: Sequence[str]) -> tuple[str, ...]:
    """``mix_wikisplit``, ``mix_compression``, ``mix_compression_2``: one a corpus."""
    names: list[str] = []
    for spec in specs:
        own = name = PREFIX + spec.partition(":")[0].replace("-", "_")
        count = 2
        while name in names:
            name, count = f"{own}_{count}", count + 1
        names.append(name)
    return tuple(names)


def apart(
    settings: Mapping[str, Any], names: Sequence[str]
) -> tuple[dict[str, Any], tuple[float, ...]]:
    """A trial's other settings, and the weights in the order of the names, 1 where one is missing.

    Of weights only their ratios matter; 1 for all draws each corpus as often as its size has it.
    """
    kept = {name: value for name, value in settings.items() if not is_weight(name)}
    return kept, tuple(float(settings.get(name, 1.0)) for name in names)
