"""``sentune study export``: write the trials of a study to a table or an Optuna storage."""

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
"""Start of a text that a spreadsheet may take for a formula, also with full-width signs."""


def write_trials(trials: Sequence[TrialRecord], out: str, *, curves: bool) -> int:
    """Write trials to a CSV, JSON or Parquet file, one row each; return the number of rows.

    The suffix of ``out`` is the format. With ``curves``, the column ``curve`` has JSON, examples ->
    metrics.

    Raises:
        InvalidValue: the suffix is another one, or the folder does not exist.
    """
    path, partial = _paths(out)
    if path.suffix not in _WRITERS:
        raise InvalidValue("--out", out, f"give a file in {', '.join(FORMATS)}, or a database URL")
    rows = [
        trial.row() | ({"curve": json.dumps(trial.curve)} if curves else {}) for trial in trials
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    _WRITERS[path.suffix](rows, columns, partial)
    partial.replace(path)
    return len(rows)


def is_optuna(out: str) -> bool:
    """Return whether ``out`` is an Optuna storage: a journal or a database."""
    return is_database(out) or Path(out).suffix == JOURNAL


def copy_study(view: StudyView, out: str) -> int:
    """Copy a study and its finals to a new journal or a database; return the number of trials.

    Optuna and optuna-dashboard read both.

    Raises:
        InvalidValue: the study has no trials, the journal exists, or the database has a study of
            the same name.
    """
    name = view.place.name
    if view.storage is None:
        raise InvalidValue("STUDY", name, "it has no trials yet; run it first")
    names = [name, *([name + FINALS] if view.snapshot().finals else [])]
    if is_database(out):
        try:
            target = open_storage(out, driver=True)
        except InvalidValue as error:
            raise InvalidValue("--out", error.value, error.fix) from error
        if {*names} & {study.study_name for study in target.get_all_studies()}:
            raise InvalidValue("--out", out, f"it already has a study {name!r}")
        return copy_studies(view.storage, target, names)
    path, partial = _paths(out)
    if path.exists():
        raise InvalidValue("--out", out, "it exists already; give a new file")
    partial.unlink(missing_ok=True)
    journal = StudyJournal(str(partial), driver=True)
    with journal.together():
        number = copy_studies(view.storage, journal, names)
    partial.rename(path)
    return number


def _paths(out: str) -> tuple[Path, Path]:
    """Return the output file, and the temporary file beside it that is written first.

    Raises:
        InvalidValue: its folder does not exist.
    """
    path = Path(out)
    if not path.absolute().parent.is_dir():
        raise InvalidValue("--out", out, "its folder does not exist; create it first")
    return path, path.with_name(f".{path.name}.partial")


def _csv(rows: list[dict[str, Any]], columns: list[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(map(_cell, columns))
        writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)


def _cell(value: Any) -> Any:
    """Return a value for CSV that no spreadsheet evaluates as a formula (OWASP, CSV injection).

    A text that looks like a formula gets a leading apostrophe, which marks it as text. Numbers,
    negative ones too, are not changed.
    """
    if isinstance(value, list | dict):
        return json.dumps(value)
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _json(rows: list[dict[str, Any]], columns: list[str], path: Path) -> None:
    # NaN and infinity, which JSON does not have, become null
    finite = json.loads(json.dumps(rows), parse_constant=lambda name: None)
    text = json.dumps(finite, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _parquet(rows: list[dict[str, Any]], columns: list[str], path: Path) -> None:
    typed = {name: _one_type([row.get(name) for row in rows]) for name in columns}
    pq.write_table(pa.table(typed), path)


def _one_type(values: list[Any]) -> list[Any]:
    """Return the values of a Parquet column with one type: as text if they have several types."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or (len(kinds) == 1 and not kinds & {list, dict}):
        return [float(v) if v is not None and float in kinds else v for v in values]
    return [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]


_WRITERS = {".csv": _csv, ".json": _json, ".parquet": _parquet}
