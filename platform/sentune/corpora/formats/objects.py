"""Files of JSON objects, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sentune.corpora.formats.reading import BadFieldError, Log, lines


def objects(path: str, log: Log, *needed: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Numbered objects (from 1) of a ``.jsonl`` file, compressed or not.

    What is no object, or lacks a key of ``needed``, goes to quarantine.

    Raises:
        CorpusError: as ``reading.lines``.
    """
    for line, text in lines(path, log):
        try:
            yield line, _object(text, needed)
        except BadFieldError as error:
            log.quarantine(path, line, str(error))


def _object(text: str, needed: tuple[str, ...]) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadFieldError(f"no JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 100,000 brackets
        raise BadFieldError(f"no usable JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadFieldError("no JSON object")
    for key in needed:
        if key not in fields:
            raise BadFieldError(f"the key {key} is missing")
    return fields
