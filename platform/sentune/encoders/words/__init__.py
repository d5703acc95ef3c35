"""Word vectors and word frequencies: read from their files, cached, looked up."""

from sentune.encoders.words.open import open_words
from sentune.encoders.words.table import WordRows, WordTable

__all__ = ["WordRows", "WordTable", "open_words"]
