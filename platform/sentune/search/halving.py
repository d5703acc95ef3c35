"""Successive halving under the name that it had before there were other schedulers."""

from sentune.search.schedulers.base import GOES_ON, Verdict
from sentune.search.schedulers.halving import Halving, default_first_rung

__all__ = ["GOES_ON", "Halving", "Verdict", "default_first_rung"]
