"""Section of a report about the winner's model: pairs, scores, a map, interpretations, losses.

It is drawn from an exhibit that a study leaves at its end; a study without it has no such section.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentune.formatting import counted, percent
from sentune.report import behaviour_charts as charts
from sentune.report.blocks import Block, Cell, Row, Table, Text, setting_cell
from sentune.report.sweep_figures import read_exhibit
from sentune.report.view import View

BEHAVIOUR_FILE = "behaviour.json"
EXAMPLES_FILE = "examples.json"
VERSION = 1
"""Of the exhibit; one of a later version is left out."""

SCORES = {
    "entails": "how far the first sentence entails the second",
    "similarity": "by how much the first sentence entails the second more than the other way",
    "extent": "by how much the extents of the two sentences differ, positive: the first entails",
}


def chapter(view: View) -> list[Block | None]:
    """Return the model's decisions on pairs of dev and their parts; none without the exhibit.

    Raises:
        InvalidValue: the exhibit is damaged.
    """
    if view.folder is None:
        return []
    content = _content(view.folder)
    decoded = _operations(view)
    if content is None and not decoded:
        return []
    blocks: list[Block | None] = []
    for place, entry in enumerate((content or {}).get("tasks", ())):
        blocks += _task(entry, place)
    if content is not None:
        blocks += [charts.embedding_map(content), *charts.regions(content)]
        blocks += _interpretations(content.get("interpretations", ()))
    return [*blocks, *decoded, charts.losses(view), charts.dev_and_test(view)]


def _content(folder: Path) -> dict[str, Any] | None:
    file = folder / BEHAVIOUR_FILE
    found = read_exhibit(file) if file.is_file() else None
    return found if found is not None and found.get("version", 0) <= VERSION else None


def _task(entry: Mapping[str, Any], place: int) -> Iterator[Block]:
    """Yield what is shown of one task."""
    of = f" of {entry['pairs']:,}" if len(entry["scores"]) < entry["pairs"] else ""
    drawn = f"{entry['task']}: {counted(len(entry['scores']), 'pair')}{of} of dev"
    drawn += ", drawn at random." if of else "."
    if entry["kind"] == "sts":
        yield Text(f"{drawn} The score is the similarity, the same both ways.")
        yield charts.similarities(entry, f"similarities_{place}")
        yield _pairs(entry, "right", f"{len(entry['right'])} pairs nearest their human rank")
        yield _pairs(entry, "wrong", f"{len(entry['wrong'])} pairs farthest from their human rank")
        return
    hits = charts.hits(entry)
    chosen = " The threshold was chosen on dev." if entry["kind"] == "rte" else ""
    right = f"{sum(hits):,} are right ({percent(sum(hits) / len(hits))})"
    yield Text(f"{drawn} The score is {SCORES[entry['by']]}; {right}.{chosen}")
    yield charts.scores(entry, f"scores_{place}")
    yield charts.by_length(entry, f"lengths_{place}")
    yield _confusion(entry)
    for outcome, count in (("right", sum(hits)), ("wrong", len(hits) - sum(hits))):
        shown = len(entry[outcome])
        random = ", drawn at random" if shown < count else ""
        yield _pairs(entry, outcome, f"{shown} of {count:,} {outcome} pairs{random}")


def _pairs(entry: Mapping[str, Any], outcome: str, caption: str) -> Table:
    """Some pairs with their scores, the surest first."""
    heads = ("first sentence", "second sentence", "label", "score")
    if not entry[outcome]:
        return Table(heads=heads[:1], rows=[], caption=f"No pair is {outcome}.")
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
    said = f"{caption}; the surest first." if entry["kind"] != "sts" else f"{caption}."
    return Table(heads=heads, rows=rows, caption=said, folded=f"{entry['task']}: {caption}")


def _confusion(entry: Mapping[str, Any]) -> Table:
    """Labels against decisions; of a direction, lengths against outcomes."""
    decided = [*zip(charts.groups(entry), charts.hits(entry), strict=True)]
    rows: list[Row] = []
    for name in sorted({group for group, _ in decided}):
        of = [hit for group, hit in decided if group == name]
        right, every = sum(of), len(of)
        cells = [Cell(f"{n:,} ({percent(n / every)})", n) for n in (right, every - right)]
        if entry["kind"] == "rte" and name == charts.OTHER:
            cells.reverse()
        rows.append([name, *cells, every])
    said = ("right", "wrong") if entry["kind"] == "direction" else ("said entailment", "said other")
    heads = ("label" if entry["kind"] == "rte" else "pairs", *said, "in all")
    caption = f"Confusion of {entry['task']}, of the pairs above."
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
        "Interpretations of five sentences: the overlaps with boxes of reference sentences that "
        "differ most. Coverage is the share of the sentence's box that the overlap takes; "
        "similarity is that to the most similar of the other overlaps."
    )
    heads = ("sentence", "interpreted with", "coverage", "similarity")
    return [Text(said), Table(heads=heads, rows=rows)]


def _operations(view: View) -> list[Block]:
    """Return the sentences decoded when the model was judged: the first of each operation."""
    files = sorted(view.folder.rglob(EXAMPLES_FILE)) if view.folder is not None else []
    items: list[Any] = [item for file in files for item in read_exhibit(file)]
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
    heads = ("operation", "first", "second", "decoded", "asked for", "ROUGE-1")
    said = f"Operations on embeddings, decoded: the first items of each operation of {part}."
    return [Text(said), Table(heads=heads, rows=rows)]
