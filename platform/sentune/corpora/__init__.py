"""Corpora: formats -> Arrow tables with a fixed schema -> tokens -> batches."""

from __future__ import annotations

from sentune.corpora.formats import read
from sentune.corpora.schema import LABELS, SCHEMAS, BadRow, Corpus, Kind

__all__ = ["LABELS", "SCHEMAS", "BadRow", "Corpus", "Kind", "read"]
