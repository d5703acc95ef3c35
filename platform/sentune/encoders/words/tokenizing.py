"""Words of a sentence, as the methods on word vectors take them."""

from __future__ import annotations

import re

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[^\sa-z0-9]")


def tokenise(sentence: str) -> list[str]:
    """Lower-cased words and numbers, and every other sign by itself."""
    return _WORD.findall(sentence.lower())
