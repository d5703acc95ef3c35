"""The cluster that the studies of a file's tables run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sentune.study.planning.connect import connected


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One for all of them: each would spend seconds on starting its own."""
    with connected():
        yield
