"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# an example may take as long as a busy machine makes it take
settings.register_profile("sentune", deadline=None)
settings.load_profile("sentune")
