"""Google's sentence compression (Filippova and Altun 2013)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from sentune.corpora.formats.columns import ApartLog, columns
from sentune.corpora.formats.reading import BadFieldError, Log, Row, lines, sentence
from sentune.corpora.formats.spec import Spec


def compression(spec: Spec, log: Log) -> Iterator[Row]:
    """Compression: ``graph.sentence`` -> ``compression.text``, or two columns with a tab between.

    The official files hold one JSON object after the other, each over many lines and with a blank
    line behind it. They are read as a stream; the line of a bad record is its first.
    """
    records = _records if _is_json(spec.path, log.limit) else _pairs
    for line, text, shorter in records(spec.path, log):
        try:
            row = "compression", sentence(text, "sentence"), None, sentence(shorter, "compression")
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            yield row


def _is_json(path: str, bad_rows: int) -> bool:
    """Return whether the first line that is not blank opens an object."""
    first = next((text.strip() for _, text in lines(path, Log(bad_rows)) if text.strip()), "")
    return first.startswith("{") and "\t" not in first


def _pairs(path: str, log: Log) -> Iterator[tuple[int, object, object]]:
    for line, (text, shorter) in columns(path, log, fewest=2, most=2):
        yield line, text, shorter


def _records(path: str, log: Log) -> Iterator[tuple[int, object, object]]:
    """First line, sentence and compression of each object."""
    held: list[str] = []
    start = 0
    for line, text in chain(lines(path, ApartLog(log)), [(0, "")]):
        if text.strip():
            start = start if held else line
            held.append(text)
        elif held:
            log.counts["read"] += 1
            try:
                yield start, *_texts("\n".join(held))
            except BadFieldError as error:
                log.quarantine(path, start, str(error))
            held = []


def _texts(record: str) -> tuple[object, object]:
    try:
        fields: Any = json.loads(record)
        return fields["graph"]["sentence"], fields["compression"]["text"]
    except json.JSONDecodeError as error:
        raise BadFieldError(f"no JSON: {error.msg} at line {error.lineno} of the record") from None
    except (ValueError, RecursionError) as error:
        raise BadFieldError(f"no usable JSON: {error}") from None
    except (KeyError, TypeError):
        raise BadFieldError("the keys graph.sentence or compression.text are missing") from None
