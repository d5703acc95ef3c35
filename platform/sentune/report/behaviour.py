"""Report section on the behaviour of the winner's model: scores, pairs, map, interpretations.

The section is drawn from ``behaviour.json``, which a study writes at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentune.formatting import counted, percent
from sentune.report import behaviour_charts as charts
from sentune.report.blocks import Block, Cell, Row, Table, Text, setting_cell
from sentune.report.sweep_figures import read_artifact
from sentune.report.view import View

BEHAVIOUR_FILE = "behaviour.json"
EXAMPLES_FILE = "examples.json"
VERSION = 1
"""Newest version of ``behaviour.json`` that is read; later versions are ignored."""

SCORES = {
    "entails": "the degree to which the first sentence entails the second",
    "similarity": "the entailment score from first to second sentence minus that in reverse",
    "extent": "the difference of the two sentences' extents, positive if the first entails",
}

CORRECT = {"right": "correct", "wrong": "incorrect"}
"""Outcome of a pair in ``behaviour.json`` -> its word in the report."""


def chapter(view: View) -> list[Block | None]:
    """Return the blocks on the model's behaviour on dev, empty if the study wrote no such files.

    Raises:
        InvalidValue: ``behaviour.json`` or ``examples.json`` is damaged.
    """
    if view.folder is None:
        return []
    content = read_artifact(view.folder / BEHAVIOUR_FILE)
    if content.get("version", 0) > VERSION:
        content = {}
    decoded = _operations(view, view.folder)
    if not content and not decoded:
        return []
    blocks: list[Block | None] = []
    for place, entry in enumerate(content.get("tasks", ())):
        blocks += _task(entry, place)
    blocks += [charts.embedding_map(content), *charts.regions(content)]
    blocks += _interpretations(content.get("interpretations", ()))
    return [*blocks, *decoded, charts.losses(view), charts.dev_and_test(view)]


def _task(entry: Mapping[str, Any], place: int) -> Iterator[Block]:
    """Yield the blocks of one task."""
    of = f" of {entry['pairs']:,}" if len(entry["scores"]) < entry["pairs"] else ""
    drawn = f"{entry['task']}: {counted(len(entry['scores']), 'pair')}{of} of dev"
    drawn += ", drawn at random." if of else "."
    if entry["kind"] == "sts":
        yield Text(f"{drawn} The score is the symmetric similarity.")
        yield charts.similarities(entry, f"similarities_{place}")
        near, far = (f"{len(entry[outcome])} pairs ranked" for outcome in ("right", "wrong"))
        yield _pairs(entry, "right", f"{near} closest to the human ranking")
        yield _pairs(entry, "wrong", f"{far} farthest from the human ranking")
        return
    hits = charts.hits(entry)
    chosen = " The threshold was chosen on dev." if entry["kind"] == "rte" else ""
    right = f"{sum(hits):,} decisions are correct ({percent(sum(hits) / len(hits))})"
    yield Text(f"{drawn} The score is {SCORES[entry['by']]}. {right}.{chosen}")
    yield charts.scores(entry, f"scores_{place}")
    yield charts.by_length(entry, f"lengths_{place}")
    yield _confusion(entry)
    for outcome, count in (("right", sum(hits)), ("wrong", len(hits) - sum(hits))):
        shown = len(entry[outcome])
        random = ", drawn at random" if shown < count else ""
        word = CORRECT[outcome]
        yield _pairs(entry, outcome, f"{shown} of {count:,} {word} pairs{random}")


def _pairs(entry: Mapping[str, Any], outcome: str, caption: str) -> Table:
    """Return a table of pairs with their scores, the most confident first."""
    heads = ("first sentence", "second sentence", "label", "score")
    if not entry[outcome]:
        return Table(heads=heads[:1], rows=[], caption=f"No pair is {CORRECT[outcome]}.")
    labels = len({pair["label"] for pair in entry[outcome]}) > 1
    rows = [
        [
            pair["first"],
            pair["second"],
            setting_cell(pair["label"]) if labels else "",
            setting_cell(pair["score"]),
        ]
        for pair in entry[outcome]
    ]
    said = f"{caption}, most confident first." if entry["kind"] != "sts" else f"{caption}."
    return Table(heads=heads, rows=rows, caption=said, folded=f"{entry['task']}: {caption}")


def _confusion(entry: Mapping[str, Any]) -> Table:
    """Return labels against decisions; for the direction, lengths against outcomes."""
    decided = [*zip(charts.groups(entry), charts.hits(entry), strict=True)]
    rows: list[Row] = []
    for name in sorted({group for group, _ in decided}):
        of = [hit for group, hit in decided if group == name]
        right, every = sum(of), len(of)
        cells = [Cell(f"{n:,} ({percent(n / every)})", n) for n in (right, every - right)]
        if entry["kind"] == "rte" and name == charts.OTHER:
            cells.reverse()
        rows.append([name, *cells, every])
    predicted = ("predicted entailment", "predicted other")
    columns = predicted if entry["kind"] == "rte" else tuple(CORRECT.values())
    heads = ("label" if entry["kind"] == "rte" else "pairs", *columns, "total")
    caption = f"Confusion matrix of {entry['task']} on the pairs above."
    return Table(heads=heads, rows=rows, caption=caption, beside=True)


def _interpretations(found: Sequence[Mapping[str, Any]]) -> list[Block]:
    if not found:
        return []
    rows: list[Row] = []
    for one in found:
        if not one["interpretations"]:
            rows.append([one["sentence"], "no reference lies between the alphas", "", ""])
        for place, chosen in enumerate(one["interpretations"]):
            sentence = Cell("" if place else one["sentence"], strong=True)
            shares = (chosen["coverage"], chosen["similarity"])
            cells = (Cell(percent(share), share) for share in shares)
            rows.append([sentence, chosen["reference"], *cells])
    said = (
        "Interpretations of five sentences: the most diverse overlaps of their boxes with boxes "
        "of reference sentences. Coverage is the share of the sentence's box that the overlap "
        "covers. Similarity is that to the most similar of the other overlaps."
    )
    heads = ("sentence", "interpreted with", "coverage", "similarity")
    return [Text(said), Table(heads=heads, rows=rows)]


def _operations(view: View, folder: Path) -> list[Block]:
    """Return the first decoded items of each operation, from ``examples.json``."""
    files = sorted(folder.rglob(EXAMPLES_FILE))
    items: list[Any] = [item for file in files for item in read_artifact(file)]
    if not items:
        return []
    part = "test" if any("/rouge" in name for name in view.summary.test) else "dev"
    rows = [
        (
            item["operation"],
            item["first"],
            item["second"] or "",
            Cell(item["generated"], strong=True),
            item["target"],
            Cell(percent(item["rouge1"]), item["rouge1"]),
        )
        for item in items
    ]
    heads = ("operation", "first", "second", "decoded", "target", "ROUGE-1")
    said = f"Decoded results of operations on embeddings: the first items of each on {part}."
    return [Text(said), Table(heads=heads, rows=rows)]
