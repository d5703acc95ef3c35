"""Plotly charts of a model's behaviour, one function each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sentune.formatting import percent, setting
from sentune.report.blocks import Cell, Chart, Row, Table, metric_cell, setting_cell
from sentune.report.drawing import ACCENT, BEST, INK, MUTED, canvas, hover, safe
from sentune.report.importance import finite_curve
from sentune.report.view import View

if TYPE_CHECKING:
    import plotly.graph_objects as go

OTHER = "other"
BINS = 24
"""Number of bins of a histogram."""
LENGTHS = (-40, -20, -1, 0, 20, 40, 60)
"""Upper bounds of the groups by difference of lengths, in characters; the last is open."""
SMALL = 0.01
"""Median score below which the score axis is logarithmic."""
LOSS = "train/loss"


def hits(entry: Mapping[str, Any]) -> list[bool]:
    """Return whether each pair is decided correctly; a score at the threshold is negative."""
    gold = entry.get("positive") or [1] * len(entry["scores"])
    pairs = zip(entry["scores"], gold, strict=True)
    return [score is not None and (score > entry["threshold"]) == bool(p) for score, p in pairs]


def groups(entry: Mapping[str, Any]) -> list[str]:
    """Return the group of each pair: its label or, for the direction, which sentence is longer."""
    if entry["kind"] == "rte":
        return ["entailment" if positive else OTHER for positive in entry["positive"]]
    longer, not_longer = "first is longer", "first is not longer"
    return [longer if difference > 0 else not_longer for difference in entry["surplus"]]


def scores(entry: Mapping[str, Any], name: str) -> Chart:
    """Return a histogram of the scores by group, with the threshold."""
    known = [(s, g) for s, g in zip(entry["scores"], groups(entry), strict=True) if s is not None]
    values = np.array([score for score, _ in known])
    positive = entry["threshold"] > 0 and bool((values > 0).all())
    log = entry["kind"] == "rte" and positive and bool(np.median(values) < SMALL)
    if log:
        values = np.log10(values)
    edges = np.histogram_bin_edges(values, BINS)
    shown = [10**edge if log else edge for edge in edges]
    digits = next((n for n in range(3, 17) if len({f"{end:.{n}g}" for end in shown}) > BINS), 17)
    ends = [f"{end:.{digits}g}" for end in shown]
    bins = [f"{low} to {high}" for low, high in pairwise(ends)]
    names = sorted({group for _, group in known})
    counts = {
        one: np.histogram(values[[group == one for _, group in known]], edges)[0].tolist()
        for one in names
    }

    def draw() -> go.Figure:
        figure = canvas("score", "pairs", barmode="overlay", bargap=0.04)
        middles = ((edges[:-1] + edges[1:]) / 2).tolist()
        for one, colour, pattern in zip(names, (ACCENT, BEST), ("", "/"), strict=False):
            look = {"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay"}}
            said = [f"{at}: {n} pairs, {one}" for at, n in zip(bins, counts[one], strict=True)]
            bars = {"name": one, "opacity": 0.65, "marker": look}
            figure.add_bar(x=middles, y=counts[one], hovertext=said, hoverinfo="text", **bars)
        limit = math.log10(entry["threshold"]) if log else entry["threshold"]
        figure.add_vline(x=limit, line={"color": INK, "width": 2, "dash": "dot"})
        if log:
            ticks = range(math.floor(edges[0]), math.ceil(edges[-1]) + 1)
            shown = [*ticks][:: max(1, math.ceil(len(ticks) / 6))]
            figure.update_xaxes(tickvals=shown, ticktext=[f"1e{tick}" for tick in shown])
        return figure

    at = f"the dotted line is the threshold, {entry['threshold']:.{digits}g}"
    what = "label" if entry["kind"] == "rte" else "which sentence is longer"
    said = f"Scores of {entry['task']} by {what}; {at}."
    rows = [*zip(bins, *counts.values(), strict=True)]
    table = Table(heads=("score", *names), rows=rows)
    return Chart(name, f"Scores, {entry['task']}", said, draw, table)


def by_length(entry: Mapping[str, Any], name: str) -> Chart:
    """Return the accuracy by how much longer the first sentence is, in characters."""
    places = np.searchsorted(LENGTHS, entry["surplus"])
    right = np.array(hits(entry))
    ends = [
        f"{low + 1} to {high}" if high - low > 1 else str(high) for low, high in pairwise(LENGTHS)
    ]
    bands = [f"≤ {LENGTHS[0]}", *ends, f"> {LENGTHS[-1]}"]
    kept = [
        (band, float(of.mean()), len(of))
        for place, band in enumerate(bands)
        if len(of := right[places == place])
    ]

    def draw() -> go.Figure:
        figure = canvas("first sentence longer by (characters)", "accuracy")
        figure.add_bar(
            x=[band for band, _, _ in kept],
            y=[100 * share for _, share, _ in kept],
            marker={"color": ACCENT},
            text=[f"{count}" for _, _, count in kept],
            textposition="outside",
            cliponaxis=False,
            hovertext=[f"{band}: {share:.1%} of {count} pairs" for band, share, count in kept],
            hoverinfo="text",
        )
        figure.update_yaxes(range=[0, 112], ticksuffix=" %", dtick=25)
        figure.update_xaxes(type="category")
        return figure

    said = "Accuracy by the difference of lengths. The number above a bar is that of its pairs."
    if entry["kind"] == "direction":
        said += " The length rule is correct if the first sentence is longer."
    rows = [(band, Cell(percent(share), share), count) for band, share, count in kept]
    table = Table(heads=("first sentence longer by", "accuracy", "pairs"), rows=rows)
    return Chart(name, f"Accuracy by length, {entry['task']}", said, draw, table)


def similarities(entry: Mapping[str, Any], name: str) -> Chart:
    """Return the model's similarities against human scores."""
    pairs = zip(entry["gold"], entry["scores"], strict=True)
    gold, found = np.array([pair for pair in pairs if pair[1] is not None]).T

    def draw() -> go.Figure:
        figure = canvas("human score", "similarity")
        mark = {"color": ACCENT, "size": 6, "opacity": 0.45}
        figure.add_scatter(x=gold.tolist(), y=found.tolist(), mode="markers", marker=mark)
        return figure

    edges = np.linspace(gold.min(), gold.max(), 6)
    places = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, 4)
    rows = [
        (f"{low:.2f} to {high:.2f}", Cell(f"{of.mean():.4g}", of.mean()),
         Cell(f"{of.std():.2g}", of.std()), len(of))
        for place, (low, high) in enumerate(pairwise(edges))
        if len(of := found[places == place])
    ]  # fmt: skip
    heads = ("human score", "mean similarity", "standard deviation", "pairs")
    said = f"Each point is a pair of {entry['task']}."
    table = Table(heads=heads, rows=rows)
    return Chart(name, f"Similarity, {entry['task']}", said, draw, table)


def embedding_map(content: Mapping[str, Any]) -> Chart | None:
    """Return pairs of sentences in the plane of the first two principal components."""
    if not (found := content.get("map")):
        return None
    pairs = found["pairs"]
    kinds = sorted({pair["kind"] for pair in pairs})

    def draw() -> go.Figure:
        figure = canvas("first component", "second component", height=440, hovermode="closest")
        for kind, colour, dash in zip(kinds, (ACCENT, BEST), ("solid", "dot"), strict=False):
            of = [pair for pair in pairs if pair["kind"] == kind]
            ends = [end for pair in of for end in (*pair["places"], (None, None))]
            said = [t for pair in of for t in (hover(pair["first"]), hover(pair["second"]), "")]
            figure.add_scatter(
                x=[x for x, _ in ends],
                y=[y for _, y in ends],
                name=safe(kind),
                mode="lines+markers",
                line={"color": colour, "width": 1, "dash": dash},
                marker={"size": 7, "symbol": ["circle", "diamond-open", "circle"] * len(of)},
                hovertext=said,
                hoverinfo="text",
            )
        return figure

    shares = ", ".join(percent(share) for share in found["explained"])
    said = (
        f"{len(pairs)} pairs in the first two principal components of the embeddings' centres "
        f"({shares} of the variance). A disc is the first sentence, a diamond the second."
    )
    rows = [
        [pair["kind"], pair["first"], pair["second"]]
        + [", ".join(map(setting, place)) for place in pair["places"]]
        for pair in pairs
    ]
    table = Table(heads=("kind", "first", "second", "first at", "second at"), rows=rows)
    return Chart("embedding_map", "Map of embeddings", said, draw, table, wide=True)


def regions(content: Mapping[str, Any]) -> Iterator[Chart]:
    """Yield the boxes or Gaussians of a few pairs, each in two dimensions."""
    for number, pair in enumerate(content.get("shapes", ())):
        yield _region(pair, f"region_{number}")


def _region(pair: Mapping[str, Any], name: str) -> Chart:
    def draw() -> go.Figure:
        from plotly.colors import hex_to_rgb

        titles = [f"dimension {dimension}" for dimension in pair["dimensions"]]
        figure = canvas(*titles, hovermode="closest")
        turn = np.linspace(0, 2 * np.pi, 73)
        outline = [np.cos(turn), np.sin(turn)]
        if pair["shape"] == "box":
            outline = [np.array([-1, 1, 1, -1, -1]), np.array([-1, -1, 1, 1, -1])]
        look = zip("AB", ("first", "second"), (ACCENT, BEST), ("solid", "dash"), strict=True)
        for side, (letter, text, colour, dash) in enumerate(look):
            # the second coordinate in a one-dimensional space is 0
            centre, reach = ([*pair[of][side], 0.0] for of in ("centre", "reach"))
            figure.add_scatter(
                x=(centre[0] + reach[0] * outline[0]).tolist(),
                y=(centre[1] + reach[1] * outline[1]).tolist(),
                name=f"{letter}, {text} sentence",
                mode="lines",
                fill="toself",
                fillcolor=f"rgba{(*hex_to_rgb(colour), 0.15)}",
                line={"color": colour, "width": 2, "dash": dash},
                text=hover(pair[text]),
                hoverinfo="text",
                hoveron="fills",
            )
        centres, sides = np.array(pair["centre"]), np.array(pair["reach"])
        low, high = (centres - sides).min(0), (centres + sides).max(0)
        room = 0.06 * (high - low)
        ranges = np.stack([low - room, high + room], axis=1).tolist()
        for update, ends in zip((figure.update_xaxes, figure.update_yaxes), ranges, strict=False):
            update(range=ends)
        return figure

    what = "two boxes" if pair["shape"] == "box" else "one standard deviation of two Gaussians"
    dimensions = " and ".join(map(str, pair["dimensions"]))
    decided = "correct" if pair["outcome"] == "right" else "incorrect"
    title = f"{setting(pair['label'])}, {decided} (score {setting(pair['score'])})"
    said = (
        f"A: “{pair['first']}”, B: “{pair['second']}”; {what} in dimensions {dimensions}, "
        "in which they differ most."
    )
    rows: list[Row] = [
        (letter, Cell(str(dimension), dimension), setting_cell(centre), *ends)
        for letter, centres, sides in zip("AB", pair["centre"], pair["reach"], strict=True)
        for dimension, centre, reach in zip(pair["dimensions"], centres, sides, strict=True)
        for ends in [map(setting_cell, (centre - reach, centre + reach))]
    ]
    table = Table(heads=("sentence", "dimension", "centre", "from", "to"), rows=rows)
    return Chart(name, title[0].upper() + title[1:], said, draw, table)


def losses(view: View) -> Chart | None:
    """Return the training loss of each trial by examples seen."""
    found = {trial.id: finite_curve(trial, LOSS) for trial in view.ranked}
    curves = {number: curve for number, curve in found.items() if len(curve) > 1}
    if not curves:
        return None
    best = view.best.id if view.best is not None else None

    def draw() -> go.Figure:
        figure = canvas("examples seen", "training loss", hovermode="closest")
        for number, curve in reversed(curves.items()):
            won = number == best
            figure.add_scatter(
                x=[*curve],
                y=[*curve.values()],
                name=f"trial {number}, the best" if won else "other trials",
                mode="lines+markers",
                line={"color": BEST if won else MUTED, "width": 2.5 if won else 1},
                showlegend=won or number == [*curves][-1],
                legendgroup="best" if won else "others",
                hovertext=[f"trial {number}: {y:.4g} at {x:,}" for x, y in curve.items()],
                hoverinfo="text",
            )
        return figure

    said = "Mean training loss between milestones, for trials with at least two milestones."
    rows = [
        (Cell(str(number), number), at, metric_cell(LOSS, loss))
        for number, curve in sorted(curves.items())
        for at, loss in curve.items()
    ]
    table = Table(heads=("trial", "examples", "loss"), rows=rows)
    return Chart("losses", "Training loss", said, draw, table)


def dev_and_test(view: View) -> Chart | None:
    """Return the winner's metrics in percent on dev, with their deviation over seeds, and test."""
    test = view.summary.test
    shown = {
        name: (view.measured[name], test[name])
        for (name, *_), on_dev, on_test in view.metric_groups
        if on_dev and on_test.endswith("%")
    }
    if not shown:
        return None

    def draw() -> go.Figure:
        figure = canvas(height=90 + 30 * len(shown), hovermode="closest")
        names = [safe(name) for name in shown]
        several = any(len(over.values) > 1 for over, _ in shown.values())
        deviations = [100 * over.sd for over, _ in shown.values()]
        bars = {"type": "data", "array": deviations, "color": ACCENT}
        figure.add_scatter(
            x=[100 * over.mean for over, _ in shown.values()],
            y=names,
            name="dev, mean ± sd over seeds" if several else "dev",
            mode="markers",
            marker={"color": ACCENT, "size": 9, "symbol": "circle-open"},
            error_x=bars if several else None,
        )
        x = [100 * value for _, value in shown.values()]
        mark = {"color": BEST, "size": 9, "symbol": "diamond"}
        figure.add_scatter(x=x, y=names, name="test, this model", mode="markers", marker=mark)
        figure.update_xaxes(ticksuffix=" %", hoverformat=".1f", showgrid=True)
        figure.update_yaxes(autorange="reversed", type="category")
        figure.update_layout(margin={"r": 24})
        return figure

    said = "Metrics of the winner on dev, where it was selected, and of the shipped model on test."
    rows = [
        (name, Cell(view.on_dev(name), over.mean), metric_cell(name, value))
        for name, (over, value) in shown.items()
    ]
    table = Table(heads=("metric", "dev", "test"), rows=rows)
    return Chart("dev_and_test", "Dev and test", said, draw, table)
