"""Leaderboard of studies by one metric, with errors and significance tests."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy

from sentune.errors import InvalidValue
from sentune.records import TrialRecord, TrialState
from sentune.report.blocks import Cell, Row, Section, StudyReport, Table, Text, metric_cell
from sentune.report.paired import Hits, PairedTest, stored_hits
from sentune.report.view import ERROR, View, of_subset

NOTE = (
    "± is the standard deviation over seeds or, for a single run and on test, the standard error "
    "over pairs. "
    "p: Welch's t test over the seeds against the first study, if both have at least two seeds "
    "and the same development corpora. "
    "p of pairs: exact sign test of the shipped models on the same test pairs. "
    "The p values are not corrected for multiple comparisons: among many studies some are small "
    "by chance."
)

Values = Sequence[float]
Rows = Sequence[tuple[Any, ...]]
"""Fingerprint and row count of each development corpus."""

_LESS = re.compile(r"(deviation|error|loss|mse|perplexity|seconds)$")
"""Metrics for which smaller is better."""


def leaderboard(views: Sequence[View], metric: str | None = None) -> pd.DataFrame:
    """Return a data frame with one row per study, the best on dev first.

    Studies without the metric, or without a complete trial, come last. ``sentune.compare``
    describes the columns, ``NOTE`` the errors and the tests. The index is the study's name.

    Args:
        metric: ``task/metric``, or with a mode ``rte/auc:min``. The default mode is that of the
            studies with this objective, else ``min`` for losses, errors and times and ``max`` for
            all others. None: the objective, which all studies must share.

    Raises:
        InvalidValue: no study is given, the objectives differ and no metric is given, the mode is
            unknown, or no study has the metric.
    """
    if not views:
        raise InvalidValue("study", "", "give at least one study to compare")
    objectives = {view.summary.objective for view in views}
    if metric is None and len(objectives) > 1:
        listed = ", ".join(sorted(objectives))
        fix = f"the studies have different objectives, {listed}; give the metric to compare by"
        raise InvalidValue("--metric", "", fix)
    asked = metric or objectives.pop()
    chosen, colon, mode = asked.partition(":")
    if colon and mode not in ("max", "min"):
        raise InvalidValue("--metric", asked, "the mode after the colon must be max or min")
    modes = {mode} if mode else {v.summary.mode for v in views if v.summary.objective == chosen}
    modes = modes or {"min" if _LESS.search(chosen) else "max"}
    found = pd.DataFrame([_row(view, chosen) for view in views]).set_index("study")
    known = sorted({name for view in views for name in view.measured if not of_subset(name)})
    if metric is not None and known and found["dev"].isna().all() and found["test"].isna().all():
        fix = f"no study has this metric; the studies have {', '.join(known)}"
        raise InvalidValue("--metric", asked, fix)
    found = found.sort_values("dev", ascending="min" in modes, kind="stable")
    best, *others = zip(found.pop("values"), found.pop("rows"), strict=True)
    first, *rest = found.pop("hits")
    return found.assign(
        p=[math.nan, *(_welch(*best, *one) for one in others)],
        p_pairs=[math.nan, *(_paired(first, hits) for hits in rest)],
    )


def _row(view: View, metric: str) -> dict[str, Any]:
    best = view.winner or view.best
    unfinished = isinstance(best, TrialRecord) and best.state is not TrialState.COMPLETE
    summary, over = view.summary, None if unfinished else view.measured.get(metric)
    values = list(over.values) if over is not None and view.winner is not None else []
    error = view.error(metric) if over is None or len(over.values) < 2 else over.sd
    dev = [one for role, one in sorted(summary.corpora.items()) if role.startswith("dev")]
    return {
        "study": summary.study,
        "method": summary.method,
        "metric": metric,
        "dev": over.mean if over is not None else math.nan,
        "error": math.nan if error is None or over is None else error,
        "seeds": len(values),
        "test": summary.test.get(metric, math.nan),
        "test_error": summary.test.get(metric + ERROR, math.nan),
        "judged_on": ", ".join(str(one["spec"]) for one in dev),
        "encoder": view.encoder,
        "state": summary.state,
        "values": values,
        "rows": [(one["fingerprint"], one.get("rows")) for one in dev],
        "hits": _hits(view, metric),
    }


def _hits(view: View, metric: str) -> tuple[list[str], Hits] | None:
    """Return the test corpora's fingerprints and the model's hits, or None if not stored."""
    hits, corpora = stored_hits(view.folder).get(metric), view.summary.corpora
    tests = [c["fingerprint"] for role, c in sorted(corpora.items()) if role.startswith("test")]
    return None if hits is None else (tests, hits)


def _paired(ours: tuple[list[str], Hits] | None, theirs: tuple[list[str], Hits] | None) -> float:
    """Return the p value of the sign test; NaN if the models were not tested on the same pairs."""
    if ours is None or theirs is None or ours[0] != theirs[0] or len(ours[1]) != len(theirs[1]):
        return math.nan
    return PairedTest.of(ours[1], theirs[1]).p


def _welch(ours: Values, on: Rows, theirs: Values, theirs_on: Rows) -> float:
    """Return the p value of Welch's t test of two means.

    It is NaN if a side has fewer than two values, both sides are constant, or their development
    rows differ.
    """
    constant = len({*ours}) == len({*theirs}) == 1
    if min(len(ours), len(theirs)) < 2 or constant or on != theirs_on:
        return math.nan
    one, other = ((np.mean(each), np.std(each, ddof=1), len(each)) for each in (ours, theirs))
    return float(scipy.stats.ttest_ind_from_stats(*one, *other, equal_var=False).pvalue)


def leaderboard_table(views: Sequence[View], metric: str | None = None) -> Table:
    """Return the leaderboard as a table, with the best study in bold."""
    found = leaderboard(views, metric)
    rows: list[Row] = []
    for name, row in found.iterrows():
        error, of_test = (None if math.isnan(row[e]) else row[e] for e in ("error", "test_error"))
        dev = metric_cell(row["metric"], row["dev"], error)
        test = "" if math.isnan(row["test"]) else metric_cell(row["metric"], row["test"], of_test)
        p, pairs = (
            "" if math.isnan(row[name]) else Cell(f"{row[name]:.2g}", row[name])
            for name in ("p", "p_pairs")
        )
        named = Cell(str(name), strong=not rows)
        described = (row["judged_on"], row["encoder"], row["state"])
        rows.append([named, row["method"], dev, test, p, pairs, *described])
    heads = ("study", "method", "dev", "test", "p", "p of pairs", "judged on", "encoder", "state")
    title = f"Leaderboard by {found['metric'].iloc[0]}"
    return Table(heads=heads, rows=rows, sortable=True, caption=title)


def leaderboard_report(views: Sequence[View], metric: str | None = None) -> StudyReport:
    """Return the leaderboard as a report with one section."""
    table = leaderboard_table(views, metric)
    untitled = replace(table, caption="")
    sections = [Section("leaderboard", table.caption, [untitled, Text(NOTE, "note")])]
    states = {view.summary.state for view in views}
    state = states.pop() if len(states) == 1 else "mixed"
    return StudyReport("Studies compared", state, f"{len(views)} studies", sections)
