"""Whether the longest counts run."""

from __future__ import annotations

import os

SOAK = "SENTUNE_SOAK" in os.environ
"""Set by ``make soak``: full counts, each test over both kinds of storage."""
