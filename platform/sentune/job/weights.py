"""The weights of mixed corpora as part of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sentune.study.space.domains import Dimension, Uniform
from sentune.study.space.space import SearchSpace


def with_weights(space: SearchSpace, names: Sequence[str]) -> SearchSpace:
    """The space with the weights of all corpora but the first, whose own is 1.

    Of weights only their ratios matter; 1 draws a corpus as often as its size has it.
    """
    first, *others = names
    searched: dict[str, Dimension] = {name: Uniform(0.1, 10.0, log=True) for name in others}
    return replace(
        space,
        settings={**space.settings, **searched},
        fixed={first: 1.0, **space.fixed},
        published={**dict.fromkeys(others, 1.0), **space.published},
    )
