"""Word vectors and word frequencies: read from their files, cached, looked up."""

from sentune.encoders.words.open import check_words, open_words
from sentune.encoders.words.table import WordRows, WordTable

__all__ = ["WordRows", "WordTable", "check_words", "open_words"]
