"""Data sets and studies that a paper's tables and figures need."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentune.errors import InvalidValue
from sentune.report.published import (
    SLICED,
    Measurement,
    Paper,
    PublishedPlot,
    PublishedRow,
    PublishedTable,
    Quick,
    TrainedOn,
    data_sets,
    papers,
)

if TYPE_CHECKING:
    from sentune.study_result import StudyResult

GENERATED = ("fusion", "difference", "compression", "reconstruction")


@dataclass(frozen=True)
class DataFolder:
    """A folder with data sets under their published names, at any depth.

    Attributes:
        folder: the folder; None: only the data sets of ``instead`` are available.
        instead: data set -> ``FORMAT:PATH`` to use for it.

    Raises:
        InvalidValue: there is no such folder, or a name in ``instead`` is unknown.
    """

    folder: Path | None
    instead: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.is_dir():
            raise InvalidValue("--data", self.folder, "give a folder of data sets")
        for name in self.instead:
            if name not in data_sets():
                fix = f"name one of {', '.join(sorted(data_sets()))}"
                raise InvalidValue("--instead", name, fix)

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Return relative path in lower case -> path, the shallowest paths first."""
        if self.folder is None:
            return {}
        found = sorted(self.folder.rglob("*"), key=lambda path: (len(path.parts), path))
        return {f"/{path.relative_to(self.folder).as_posix()}".lower(): path for path in found}

    def find(self, name: str) -> str | None:
        """Return a data set as ``FORMAT:PATH``; None if it is missing."""
        if name in self.instead:
            return self.instead[name]
        known = data_sets()[name]
        query = f"?{known.options}" if known.options else ""
        for pattern in known.files:
            for relative, path in self._files.items():
                if fnmatch(relative, f"*/{pattern.lower()}"):
                    place = str(path.parent if known.folder else path).replace("?", "%3F")
                    return f"{known.format}:{place}{query}"
        return None


def cut(spec: str, rows: int | None) -> str:
    """Return a corpus with at most ``rows`` rows; a range of rows keeps its start."""
    if rows is None:
        return spec
    if part := SLICED.search(spec):
        open_end = re.match(r"(\d+):(?=&|$)", spec[part.end() :])
        if open_end is None:
            return spec
        start = int(open_end[1])
        return f"{spec[: part.end()]}{start}:{start + rows}{spec[part.end() + open_end.end() :]}"
    return f"{spec}{'&' if '?' in spec else '?'}rows=0:{rows}"


@dataclass(frozen=True, kw_only=True)
class StudyChoices:
    """A user's choices for the studies of a table.

    Attributes:
        data: data sets.
        quick: whether studies and data sets are reduced to run in minutes on a small machine.
        models: option -> value for ``encoder``, ``decoder``, ``vectors`` and ``frequencies``; each
            method uses those that it has.
        options: further options of every study, such as ``storage``.
    """

    data: DataFolder
    quick: bool
    models: dict[str, str]
    options: dict[str, Any]

    def quick_of(self, trained: TrainedOn) -> Quick:
        """Return the changes for a small study; no changes without ``quick``."""
        return trained.quick if self.quick else Quick()


@dataclass(frozen=True, kw_only=True)
class PaperStudy:
    """A study that rows of a table need.

    Attributes:
        name: name with a digest of the options, so that equal rows share a study, and another
            encoder or corpus gives another study.
        options: keyword arguments of ``sentune.tune``.
        differs: differences from the paper.
    """

    name: str
    method: str
    options: dict[str, Any]
    differs: tuple[str, ...]

    def run(self) -> StudyResult:
        """Run or resume the study.

        Raises:
            KeyboardInterrupt: Ctrl-C interrupted it, and ends the command as well.
            StudyFailed: its trials failed.
        """
        from sentune.api import tune

        if (result := tune(self.method, study=self.name, **self.options)).state == "interrupted":
            raise KeyboardInterrupt
        return result


class Unavailable(Exception):
    """Reason why a part of a paper cannot be reproduced here."""


def every() -> list[tuple[str, Paper, PublishedTable | PublishedPlot]]:
    """Return name (``laes/figure-2``), paper, and table or figure of all papers, sorted by name."""
    found: list[tuple[str, Paper, PublishedTable | PublishedPlot]] = []
    for paper in papers():
        published: tuple[PublishedTable | PublishedPlot, ...] = (*paper.tables, *paper.plots)
        found += [(f"{_slug(paper.paper)}/{_slug(one.name)}", paper, one) for one in published]
    return sorted(found, key=lambda each: each[0])


def find_published(name: str) -> tuple[Paper, PublishedTable | PublishedPlot]:
    """Return a table or a figure by its name.

    Raises:
        InvalidValue: the name is unknown; the message lists all names.
    """
    known = {each: (paper, found) for each, paper, found in every()}
    if name not in known:
        raise InvalidValue("TABLE", name, f"choose one of {', '.join(known)}")
    return known[name]


def study_of(row: PublishedRow, trained: TrainedOn, choices: StudyChoices) -> PaperStudy:
    """Return the study whose model is evaluated for a row.

    Raises:
        Unavailable: all data sets to train or to select on are missing, or the row's vectors.
    """
    from search_spaces import find_job

    job, quick = find_job(row.method), choices.quick_of(trained)
    defaults, published = job.defaults, job.space.published
    known = {name: choices.data.find(name) for name in (*trained.data, *trained.dev)}
    missing = [name for name, spec in known.items() if spec is None]
    corpora = [spec for name in trained.data if (spec := known[name]) is not None]
    dev = [cut(spec, quick.rows) for name in trained.dev if (spec := known[name]) is not None]
    if not corpora or not dev:
        raise Unavailable(f"{', '.join(missing)} not found")
    several = isinstance(defaults.corpus, tuple)
    fields = type(defaults).model_fields
    models = {name: value for name, value in choices.models.items() if name in fields}
    if row.vectors:
        if (own := choices.data.find(row.vectors)) is None:
            raise Unavailable(f"{row.vectors} not found")
        models["vectors"] = own
    if "decoder" in fields:  # the page shows it, also if it is the job's default
        models.setdefault("decoder", defaults.model_dump()["decoder"])
    asked = trained.options | quick.options | choices.options | models | row.options
    if isinstance(getattr(defaults, "vectors", None), tuple) and "vectors" in models:
        asked["vectors"] = (models["vectors"],)
    searched = {name: list(values) for name, values in row.settings.items() if len(values) > 1}
    setting = {**published, **quick.set, **searched}
    setting |= {name: values[0] for name, values in row.settings.items() if len(values) == 1}
    names = {*job.space.settings, *job.space.readouts, *row.settings}
    setting = {name: value for name, value in setting.items() if name in names}
    for name, conditions in job.space.conditions.items():
        if any(not _any_of(setting.get(on), values) for on, values in conditions.items()):
            setting.pop(name, None)
    options = {
        "corpus": corpora if several else corpora[0],
        "dev": dev,
        "set": setting,
        "trials": math.prod(map(len, searched.values())),
        **({"sampler": "grid"} if searched else {}),
        **{name: value for name, value in asked.items() if name in fields},
    }
    differs = [f"without {name}" for name in missing]
    if not several and len(corpora) > 1:
        differs.append(f"trained on {trained.data[0]} alone")
    sizes = setting.get("batch_size")
    if asked.get("profile") == "paper" and isinstance(sizes, list):
        every = f"{100 * min(sizes):,} examples, 100 steps of the smallest batch"
        differs.append(f"every trial is validated every {every}")
    if quick.options:
        differs.append(f"quick: {', '.join(f'{k}={v}' for k, v in quick.options.items())}")
    differs += [
        f"{name}={value} instead of {published.get(name)}"
        for name, value in quick.set.items()
        if name in setting and value == setting[name] != published.get(name)
    ]
    digest = hashlib.sha256(json.dumps(options, sort_keys=True, default=str).encode())
    label = "-".join([row.method, *(f"{n}-{v[0]}" for n, v in row.settings.items() if v)])
    return PaperStudy(
        name=f"{_slug(label)[:50]}-{digest.hexdigest()[:8]}",
        method=row.method,
        options={**options, "no_history": True},
        differs=tuple(differs),
    )


def linear_of(table: PublishedTable, trained: TrainedOn, choices: StudyChoices) -> PaperStudy:
    """Return the training of LINEAR for a table, with keyword arguments of ``run_linear``.

    Raises:
        Unavailable: a data set that it trains on is missing.
    """
    asked = {"corpus": trained.data[0], "ambiguous": table.dev.get("ambiguous-rte")}
    known = {option: name and choices.data.find(name) for option, name in asked.items()}
    if missing := [name for option, name in asked.items() if name and not known[option]]:
        raise Unavailable(f"{', '.join(missing)} not found")
    options: dict[str, Any] = {"encoder": choices.models.get("encoder", "builtin:tiny"), **known}
    differs = [f"trained on {name} alone" for name in trained.data[:1] if len(trained.data) > 1]
    if choices.quick:
        quick = trained.quick
        options |= {"max_examples": quick.options["max_examples"], "second_epochs": 1}
        options["ambiguous"] = known["ambiguous"] and cut(known["ambiguous"], quick.rows)
        differs.append(f"quick: max_examples={options['max_examples']}, second_epochs=1")
    return PaperStudy(name="linear", method="linear", options=options, differs=tuple(differs))


def task_of(part: Measurement) -> str:
    """Return the task that a metric belongs to, as ``sentune.evaluate`` names it."""
    task = part.metric.partition("/")[0]
    return "generation" if task in GENERATED else "sts" if re.fullmatch(r"sts\d\d", task) else task


def missing_data(
    found: PublishedTable | PublishedPlot, paper: Paper, data: DataFolder
) -> dict[str, str]:
    """Return missing data set -> source, of those that a table or figure needs."""
    dev: tuple[str, ...] = ()  # instead of that of the training
    if isinstance(found, PublishedPlot):
        names, used = [*found.lengths], [found.trained] if found.trained else []
        dev = found.dev
    else:
        names = [part.data for column in found.columns for part in column.parts]
        names += [*found.dev.values(), *([found.references] if found.references else [])]
        names += [row.vectors for row in found.rows if row.vectors]
        used = [r.trained or c.trained or found.trained for r in found.rows for c in found.columns]
        used += [row.encoder_of["trained"] for row in found.rows if row.encoder_of]
    for trained in dict.fromkeys(used):
        names += [*paper.trained[trained].data, *(dev or paper.trained[trained].dev)]
    names = list(dict.fromkeys(names))
    return {name: data_sets()[name].source for name in names if data.find(name) is None}


def grid_row(table: PublishedTable) -> PublishedRow:
    """Return a row whose study has a trial for each cell of a table over two settings."""
    down = [(name, values) for row in table.rows for name, values in row.settings.items()]
    across = [(n, (value,)) for column in table.columns for n, value in column.settings.items()]
    settings: dict[str, tuple[Any, ...]] = {}
    for name, values in (*down, *across):
        settings[name] = tuple(dict.fromkeys((*settings.get(name, ()), *values)))
    return table.rows[0].model_copy(update={"header": (table.name,), "settings": settings})


def _any_of(value: Any, allowed: Any) -> bool:
    """Return whether a value, or any in a list of searched values, is allowed."""
    return any(each in allowed for each in (value if isinstance(value, list) else [value]))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-")
