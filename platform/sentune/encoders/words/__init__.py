"""Word vectors and word frequencies: reading, caching and lookup."""

from sentune.encoders.words.open import check_words, open_words
from sentune.encoders.words.table import WordRows, WordTable

__all__ = ["WordRows", "WordTable", "check_words", "open_words"]
