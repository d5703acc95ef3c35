"""``sentune study export``: every trial of a study as one row of a file, or as Optuna has it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentune.errors import InvalidValue
from sentune.records import TrialRecord
from sentune.study.store.journal import StudyJournal, copy_studies
from sentune.study.store.storage import open_storage
from sentune.study.store.study_index import FINALS, is_database
from sentune.study.store.study_view import StudyView

JOURNAL = ".journal"
FORMATS = (".csv", ".json", ".parquet", JOURNAL)

_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""What a spreadsheet may take for a formula: its signs, also their wide forms and behind blanks."""


def write_trials(trials: Sequence[TrialRecord], out: str, *, curves: bool) -> int:
    """Write trials into a file, whose ending names the format; return the number of rows.

    ``curves``: with a column ``curve``, JSON: examples -> metrics there.

    Raises:
        InvalidValue: another ending, or a folder that does not exist.
    """
    path, partial = _paths(out)
    if path.suffix not in _WRITERS:
        raise InvalidValue("--out", out, f"end it in {', '.join(FORMATS)}, or give a database URL")
    rows = [
        trial.row() | ({"curve": json.dumps(trial.curve)} if curves else {}) for trial in trials
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    _WRITERS[path.suffix](rows, columns, partial)
    partial.replace(path)
    return len(rows)


def is_optuna(out: str) -> bool:
    """Return whether a place holds studies of Optuna: a journal or a database."""
    return is_database(out) or Path(out).suffix == JOURNAL


def copy_study(view: StudyView, out: str) -> int:
    """Copy a study and its finals into a new journal or a database; return the number of trials.

    A journal takes its name when it is whole. Optuna's own library and pages read both.

    Raises:
        InvalidValue: the study has no trials, or the place has a study of its name already.
    """
    name = view.place.name
    if view.storage is None:
        raise InvalidValue("STUDY", name, "it has no trials yet; start it first")
    names = [name, *([name + FINALS] if view.snapshot().finals else [])]
    if is_database(out):
        try:
            target = open_storage(out, driver=True)
        except InvalidValue as error:
            raise InvalidValue("--out", error.value, error.fix) from error
        if {*names} & {study.study_name for study in target.get_all_studies()}:
            raise InvalidValue("--out", out, f"it has a study {name!r} already")
        return copy_studies(view.storage, target, names)
    path, partial = _paths(out)
    if path.exists():
        raise InvalidValue("--out", out, "it exists; name a new file")
    partial.unlink(missing_ok=True)
    journal = StudyJournal(str(partial), driver=True)
    with journal.together():
        number = copy_studies(view.storage, journal, names)
    partial.rename(path)
    return number


def _paths(out: str) -> tuple[Path, Path]:
    """Return the file of an option, and the one beside it that is written first."""
    path = Path(out)
    if not path.absolute().parent.is_dir():
        raise InvalidValue("--out", out, "make its folder first")
    return path, path.with_name(f".{path.name}.partial")


def _csv(rows: list[dict[str, Any]], columns: list[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(map(_cell, columns))
        writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)


def _cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula; JSON and Parquet have it as it is.

    Such a text gets an apostrophe before it, which spreadsheets take for "this is text" (OWASP,
    CSV injection). Numbers stay numbers, those below 0 too.
    """
    if isinstance(value, list | dict):
        return json.dumps(value)
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _json(rows: list[dict[str, Any]], columns: list[str], path: Path) -> None:
    # JSON has no NaN and no infinity: null stands for them
    finite = json.loads(json.dumps(rows), parse_constant=lambda name: None)
    text = json.dumps(finite, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _parquet(rows: list[dict[str, Any]], columns: list[str], path: Path) -> None:
    typed = {name: _one_type([row.get(name) for row in rows]) for name in columns}
    pq.write_table(pa.table(typed), path)


def _one_type(values: list[Any]) -> list[Any]:
    """A Parquet column has one type; where values have several (lists, text, numbers), text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or (len(kinds) == 1 and not kinds & {list, dict}):
        return [float(v) if v is not None and float in kinds else v for v in values]
    return [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]


_WRITERS = {".csv": _csv, ".json": _json, ".parquet": _parquet}
