"""The paper's figures beside the study's own, with what keeps them from being compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sentune.formatting import measured, percent, spread
from sentune.report.document import Block, Cell, Section, Table, Text, columns
from sentune.report.published import JUDGED, PUBLISHED, TABLE_3, Published
from sentune.report.view import View

KINDS = {
    "rte": "labelled-pairs",
    "direction": "labelled-pairs",
    "ambiguous-rte": "pairs-of-several-labels",
    "csts": "conditioned-pairs",
    "fusion": "operations",
    "difference": "operations",
    "compression": "operations",
    "reconstruction": "operations",
}
"""Task -> kind of corpus that poses it; everything else is scored pairs."""
SLICED = re.compile(r"[?&](rows|premises|size)=")


@dataclass(frozen=True, kw_only=True)
class Ours:
    """The study's figure: a metric, its value, and the corpora that it was measured on."""

    metric: str
    value: str
    specs: tuple[str, ...]
    part: str


def comparison(view: View) -> Section | None:
    """A row for each published figure whose metric the study has; None where there is none."""
    rows = _rows(view)
    grid = _grid(view)
    if not rows and grid is None:
        return None
    encoder = view.encoder or "an encoder that the summary does not name"
    trained = _spec(view, "corpus")
    said = Text(text=f"Ours: {encoder}, trained on {trained}.")
    blocks: list[Block] = [said, *_theirs(view)]
    differ = [line[-1].text for line in rows if line[-1].text]
    if differ or grid is not None:
        lead = "Not a reproduction" if len(differ) == len(rows) else "Not all are reproductions"
        text = f"{lead}: encoder or corpora differ from the paper's, as the last column says."
        blocks.append(Text(text=text, tone="warning"))
    if rows:
        blocks.append(_table(rows))
    if grid is not None:
        blocks.append(grid)
    return Section(name="paper", title="Beside the paper", blocks=blocks)


def _theirs(view: View) -> list[Text]:
    """What the papers' rows were trained on, and from what."""
    trained = dict.fromkeys(one.trained for one in PUBLISHED if _is_of(view, one))
    return [Text(text=f"The paper: {one.encoder}, trained on {one.corpus}.") for one in trained]


def _table(rows: list[list[Cell]]) -> Table:
    heads = columns(
        *("paper", "metric", "judged on", "the paper", "ours", "ours judged on"),
        "not a reproduction: other",
        numbers=("the paper", "ours"),
        wide=("ours judged on",),
    )
    return Table(columns=heads, rows=rows)


def _rows(view: View) -> list[list[Cell]]:
    """Of each metric what was judged on the study's own data set, or else all that there is."""
    known: dict[str, list[tuple[Published, str, Ours]]] = {}
    for published in PUBLISHED:
        ours = _ours(view, published.metric) if _is_of(view, published) else None
        if ours is not None:
            named = [(published, judged, ours) for judged in published.values]
            known.setdefault(published.metric, []).extend(named)
    rows = []
    for found in known.values():
        alike = [one for one in found if _judged_alike(one[1], one[2].specs)]
        rows += [_row(view, *one) for one in alike or found]
    return rows


def _row(view: View, published: Published, judged: str, ours: Ours) -> list[Cell]:
    return [
        Cell(text=f"{published.source}: {published.row}"),
        Cell(text=published.metric),
        Cell(text=judged),
        Cell(text=percent(published.values[judged])),
        Cell(text=ours.value),
        Cell(text=f"{ours.part}: {', '.join(ours.specs) or 'not said'}"),
        Cell(text=", ".join(_differences(view, published, judged, ours))),
    ]


def _is_of(view: View, published: Published) -> bool:
    """Whether the study's winner is of the method and the settings of a paper's row."""
    winner = view.winner or view.best
    if published.method != view.summary.method or winner is None:
        return False
    settings = {**view.summary.space.get("fixed", {}), **winner.settings}
    return all(
        settings[name] in allowed for name, allowed in published.where.items() if name in settings
    )


def _ours(view: View, metric: str) -> Ours | None:
    """On test where it was measured there, else on dev."""
    summary = view.summary
    if metric in summary.test:
        value = measured(metric, summary.test[metric])
        return Ours(metric=metric, value=value, specs=_specs(view, "test", metric), part="test")
    over = view.measured.get(metric)
    if over is None:
        return None
    value = spread(metric, over, view.error(metric))
    return Ours(metric=metric, value=value, specs=_specs(view, "dev", metric), part="dev")


def _specs(view: View, part: str, metric: str) -> tuple[str, ...]:
    """The corpora of a part that pose the metric's task."""
    kind = KINDS.get(metric.partition("/")[0], "scored-pairs")
    return tuple(
        str(corpus["spec"])
        for role, corpus in view.summary.corpora.items()
        if role.partition("-")[0] == part and corpus.get("kind", kind) == kind
    )


def _spec(view: View, role: str) -> str:
    corpus = view.corpus(role)
    return f"{corpus['spec']} ({corpus.get('rows', 0):,} rows)" if corpus else "no corpus"


def _differences(view: View, published: Published, judged: str, ours: Ours) -> list[str]:
    trained = published.trained
    found = []
    if trained.encoder.lower() not in view.encoder.lower().rpartition("/")[2]:
        found.append("encoder")
    if not _trained_alike(view, published):
        found.append("training corpus")
    if not _judged_alike(judged, ours.specs):
        found.append("data judged on")
    return found


def _trained_alike(view: View, published: Published) -> bool:
    """The same formats, whole, and as many rows as the paper counts."""
    trained = published.trained
    corpora: list[Mapping[str, Any]] = [
        corpus
        for role, corpus in view.summary.corpora.items()
        if role.partition("-")[0] == "corpus"
    ]
    specs = [str(corpus["spec"]) for corpus in corpora]
    formats = {spec.partition(":")[0] for spec in specs}
    whole = not any(SLICED.search(spec) for spec in specs)
    rows = sum(corpus.get("rows", 0) for corpus in corpora)
    return formats == set(trained.formats) and whole and trained.rows in (None, rows)


def _judged_alike(name: str, specs: tuple[str, ...]) -> bool:
    """Whether one whole corpus alone is of the data set's format and, by its path, of its part."""
    kind, word = JUDGED[name]
    if len(specs) != 1:
        return False
    found, _, path = specs[0].partition(":")
    return found == kind and word in path.lower() and not SLICED.search(path)


def _grid(view: View) -> Table | None:
    """GaussCSE's Table 3 with the study's own cells; None where it has none of them."""
    if view.summary.method != "gauss":
        return None
    metric, own = "rte/auc", {}
    for trial in reversed(view.ranked):
        place = trial.settings.get("batch_size"), trial.settings.get("learning_rate")
        value = view.value(trial, metric)
        if place in TABLE_3 and value is not None:
            own[place] = measured(metric, value)
    if not own:
        return None
    rates = sorted({rate for _, rate in TABLE_3})
    rows = [
        [
            Cell(text=str(size)),
            *(_both(TABLE_3[size, rate], own.get((size, rate))) for rate in rates),
        ]
        for size in sorted({size for size, _ in TABLE_3})
    ]
    heads = columns("batch size", *(f"{rate:g}" for rate in rates), numbers=("batch size",))
    caption = (
        "GaussCSE, Table 3: area for NLI on SNLI dev by batch size and learning rate, from "
        "bert-base; in brackets the same cell of this study on its own dev."
    )
    return Table(columns=heads, rows=rows, caption=caption)


def _both(paper: float, own: str | None) -> Cell:
    return Cell(text=f"{percent(paper)} ({own})" if own else percent(paper), strong=own is not None)
