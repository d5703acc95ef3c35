"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.backends import Servers

# an example may take as long as a busy machine makes it take
settings.register_profile("sentune", deadline=None)
settings.load_profile("sentune")


@pytest.fixture(scope="session")
def both_servers() -> Iterator[Servers]:
    """PostgreSQL and S3, started when the first test wants them; one pair of a kind, as their
    addresses are in the environment."""
    from tests.backends import servers

    with servers() as both:
        yield both
