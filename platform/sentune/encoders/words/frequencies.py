"""How often words occur: a list of counts as SIF uses it, or the package wordfreq."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

from sentune.encoders.words.lines import Quarantine, blocks
from sentune.errors import CorpusError, InvalidValue

PACKAGE = "wordfreq:"


def probabilities(spec: str, quarantine: Quarantine) -> dict[str, float]:
    """Return the relative frequency of each lower-cased word.

    Args:
        spec: a file of lines ``word count``, or ``wordfreq:LANGUAGE``.
        quarantine: for bad lines of the file.

    Raises:
        CorpusError: the file cannot be read, has too many bad lines, or none that is good.
        InvalidValue: wordfreq is not installed, or does not know the language.
    """
    if spec.startswith(PACKAGE):
        wordfreq = wordfreq_package(spec)
        try:
            return dict(wordfreq.get_frequency_dict(spec.removeprefix(PACKAGE)))
        except LookupError as error:
            fix = f"use one of the languages {', '.join(sorted(wordfreq.available_languages()))}"
            raise InvalidValue("--frequencies", spec, fix) from error
    counts: dict[str, float] = {}  # a word in two spellings (The, the) has the sum of both
    for number, lines in blocks(quarantine):
        for place, line in enumerate(lines, start=number):
            try:
                word, text = line.decode().split()
                count = float(text)
            except ValueError:  # UnicodeDecodeError is one
                quarantine.add(place, "the line is not 'word count'")
                continue
            if math.isfinite(count) and count > 0:
                counts[word.lower()] = counts.get(word.lower(), 0.0) + count
            else:
                quarantine.add(place, f"the count of {word!r} is not above 0: {text}")
    if not counts:
        raise CorpusError(quarantine.path, "the list has no line 'word count'")
    total = math.fsum(counts.values())
    return {word: count / total for word, count in counts.items()}


def wordfreq_package(spec: str) -> Any:
    """Return the package of ``wordfreq:LANGUAGE``, which is not one of sentune's own."""
    try:
        return import_module("wordfreq")
    except ModuleNotFoundError as error:
        fix = "it needs the package wordfreq: pip install wordfreq"
        raise InvalidValue("--frequencies", spec, fix) from error
