"""How often words occur: a list of counts as SIF uses it, or the package wordfreq."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from sentune.encoders.words.lines import Quarantine, blocks
from sentune.errors import CorpusError, InvalidValue

PACKAGE = "wordfreq:"


def probabilities(spec: str, quarantine: Quarantine) -> dict[str, float]:
    """Lower-cased word -> relative frequency.

    Args:
        spec: a file of lines ``word count``, or ``wordfreq:LANGUAGE``.

    Raises:
        CorpusError: the file cannot be read, has too many bad lines, or none that is good.
        InvalidValue: wordfreq is not installed, or does not know the language.
    """
    if spec.startswith(PACKAGE):
        return _from_package(spec)
    counts: dict[str, float] = {}
    for number, lines in blocks(quarantine):
        for place, line in enumerate(lines, start=number):
            _count(line, place, counts, quarantine)
    if not counts:
        raise CorpusError(quarantine.path, "the list has no line 'word count'")
    total = math.fsum(counts.values())
    return {word: count / total for word, count in counts.items()}


def package_version(spec: str) -> str:
    """Version of the package that the list comes from, which decides what is in it.

    Raises:
        InvalidValue: it is not installed.
    """
    _package(spec)
    return version("wordfreq")


def _count(line: bytes, place: int, counts: dict[str, float], quarantine: Quarantine) -> None:
    """Add a line; a word in two spellings (``The``, ``the``) has the sum of both."""
    try:
        word, number = line.decode().split()
        count = float(number)
    except ValueError:  # UnicodeDecodeError is one
        quarantine.add(place, "the line is not 'word count'")
        return
    if not (math.isfinite(count) and count > 0):
        quarantine.add(place, f"the count of {word!r} is not above 0: {number}")
        return
    counts[word.lower()] = counts.get(word.lower(), 0.0) + count


def _from_package(spec: str) -> dict[str, float]:
    wordfreq = _package(spec)
    language = spec.removeprefix(PACKAGE)
    try:
        found: Mapping[str, float] = wordfreq.get_frequency_dict(language)
    except LookupError as error:
        known = ", ".join(sorted(wordfreq.available_languages()))
        raise InvalidValue("--frequencies", spec, f"use one of the languages {known}") from error
    return dict(found)


def _package(spec: str) -> Any:
    try:
        return import_module("wordfreq")
    except ModuleNotFoundError as error:
        fix = "it needs the package wordfreq: pip install wordfreq"
        raise InvalidValue("--frequencies", spec, fix) from error
