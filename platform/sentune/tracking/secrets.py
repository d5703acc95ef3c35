"""Credentials go before anything is tracked; see ``sentune.credentials``."""

from __future__ import annotations

from sentune.credentials import without_credentials

__all__ = ["without_credentials"]
