"""Reads and writes ``summary.json``, the stable interface to a study's results."""

from __future__ import annotations

import functools
import json
import math
from importlib import resources
from typing import Any

import jsonschema

from sentune.credentials import without_credentials
from sentune.errors import DamagedFile
from sentune.io.atomic import read_document, write_document
from sentune.records import StudySummary

NAME = "summary.json"
FIX = "the study's own command, or `sentune study resume`, writes it again"


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of ``summary.json``, a file of the package."""
    text = resources.files("sentune").joinpath("summary.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def write_summary(summary: StudySummary, folder: str) -> str:
    """Write ``summary.json`` into ``folder``, a path or fsspec URI, and return its path.

    Raises:
        StorageError: the file cannot be written; the old summary is unchanged.
        jsonschema.ValidationError: the summary does not satisfy the schema.
    """
    content = as_written(summary.to_dict())
    jsonschema.validate(content, schema())
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return write_document(folder, NAME, text + "\n")


def read_summary(folder: str) -> dict[str, Any]:
    """Return the content of the ``summary.json`` in ``folder``, checked against the schema.

    Raises:
        FileNotFoundError: there is none yet.
        DamagedFile: it is damaged, or was written by another version.
    """
    try:
        if (text := read_document(folder, NAME)) is None:
            raise FileNotFoundError(f"{folder}/{NAME}")
        content: dict[str, Any] = json.loads(text)
        jsonschema.validate(content, schema())
    except (ValueError, jsonschema.ValidationError) as error:
        why = getattr(error, "message", str(error))
        raise DamagedFile(f"{folder}/{NAME}", f"it is damaged ({why:.200})", FIX) from None
    return content


def as_written(content: Any) -> Any:
    """Return a copy of a part of the summary for the file: finite, without credentials."""
    return without_credentials(_finite(content))


def _finite(value: Any) -> Any:
    """Return a copy without values that are not finite, which JSON does not have.

    A trial with such a value names it in its reason.
    """
    if isinstance(value, dict):
        return {
            key: _finite(item)
            for key, item in value.items()
            if not isinstance(item, float) or math.isfinite(item)
        }
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
