"""Read corpora of all formats, named ``FORMAT:PATH?key=value&...``, as Arrow tables."""

from __future__ import annotations

from sentune.corpora.formats.open import check_opens, kinds_of, open_rows, read, read_pairs
from sentune.corpora.formats.registry import FORMATS

__all__ = ["FORMATS", "check_opens", "kinds_of", "open_rows", "read", "read_pairs"]
