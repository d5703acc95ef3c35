"""What the readers of sentence operations share, and the project's own plain format of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sentune.corpora.formats.objects import objects
from sentune.corpora.formats.reading import BadFieldError, Log, Row, sentence
from sentune.corpora.formats.spec import FIELD, Spec
from sentune.corpora.schema import OPERATIONS, PAIR_OPERATIONS
from sentune.errors import InvalidValue

OPTION = {"operations": f"some of {', '.join(OPERATIONS)} with + between them; default all"}


def chosen_operations(spec: Spec) -> tuple[str, ...]:
    """Return the operations that the option ``operations`` names, in the order of ``OPERATIONS``.

    Raises:
        InvalidValue: it names something else, or nothing.
    """
    asked = spec.options.get("operations", "+".join(OPERATIONS)).split("+")
    if unknown := [name for name in asked if name not in OPERATIONS]:
        fix = f"use some of {', '.join(OPERATIONS)} with + between them"
        raise InvalidValue(f"{FIELD} option operations", "+".join(unknown), fix)
    return tuple(name for name in OPERATIONS if name in asked)


def operation_row(fields: Mapping[str, object]) -> Row:
    """Check operation, first, second and target.

    Raises:
        BadFieldError: an unknown operation, an empty sentence, or a second sentence where the
            operation takes one, or none where it takes two.
    """
    operation, second = fields.get("operation"), fields.get("second")
    if operation not in OPERATIONS:
        raise BadFieldError(f"unknown operation {operation!r}")
    if operation in PAIR_OPERATIONS:
        second = sentence(second, "second")
    elif second is not None:
        raise BadFieldError(f"{operation} takes one sentence, but second is {second!r}")
    first, target = (sentence(fields.get(name), name) for name in ("first", "target"))
    return operation, first, second, target


def jsonl(spec: Spec, log: Log) -> Iterator[Row]:
    """Rows of a file with one object a line: operation, first, second and target.

    ``second`` is missing or null where the operation takes one sentence. Dropped and counted as
    ``other_operations``: what the option ``operations`` leaves out.
    """
    chosen = chosen_operations(spec)
    for line, fields in objects(spec.path, log, "operation"):
        try:
            row = operation_row(fields)
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
            continue
        if row[0] in chosen:
            yield row
        else:
            log.counts["other_operations"] += 1
