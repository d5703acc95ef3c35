"""The charts of what a model does; each function says what one shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sentune.formatting import measured, percent, spread
from sentune.report.blocks import Cell, Chart, Table
from sentune.report.drawing import ACCENT, BEST, INK, MUTED
from sentune.report.importance import finite_curve
from sentune.report.plotting import canvas, hover, safe
from sentune.report.rules import ACCURACIES
from sentune.report.view import ERROR, View, of_subset

if TYPE_CHECKING:
    import plotly.graph_objects as go

OTHER = "other"
BINS = 24
"""Bars of a histogram."""
LENGTHS = (-40, -20, -1, 0, 20, 40, 60)
"""Largest difference of lengths of each group but the last, in characters."""
SMALL = 0.01
"""Median of scores below which their axis is logarithmic."""
LOSS = "train/loss"


def hits(entry: Mapping[str, Any]) -> list[bool]:
    """Which pairs are decided rightly; what lies at the threshold is no entailment."""
    gold = entry.get("positive") or [1] * len(entry["scores"])
    pairs = zip(entry["scores"], gold, strict=True)
    return [score is not None and (score > entry["threshold"]) == bool(p) for score, p in pairs]


def groups(entry: Mapping[str, Any]) -> list[str]:
    """Return what each pair is called: its label, or of a direction which sentence is longer."""
    if entry["kind"] == "rte":
        return ["entailment" if positive else OTHER for positive in entry["positive"]]
    longer, not_longer = "first is longer", "first is not longer"
    return [longer if difference > 0 else not_longer for difference in entry["surplus"]]


def word(value: Any) -> str:
    """Return a score or a label as text."""
    return f"{value:.3g}" if isinstance(value, float | int) else str(value or "-")


def scores(entry: Mapping[str, Any], name: str) -> Chart:
    """How often each score occurs, by label, and the threshold."""
    known = [(s, g) for s, g in zip(entry["scores"], groups(entry), strict=True) if s is not None]
    values = np.array([score for score, _ in known])
    log = entry["kind"] == "rte" and bool(np.median(values) < SMALL) and bool((values > 0).all())
    if log:
        values = np.log10(values)
    edges = np.histogram_bin_edges(values, BINS)
    names = sorted({group for _, group in known})
    counts = {
        one: np.histogram(values[[group == one for _, group in known]], edges)[0] for one in names
    }
    limit = math.log10(entry["threshold"]) if log else entry["threshold"]

    def draw() -> go.Figure:
        import plotly.graph_objects as go

        figure = canvas("score", "pairs", barmode="overlay", bargap=0.04)
        middles = (edges[:-1] + edges[1:]) / 2
        for one, colour, pattern in zip(names, (ACCENT, BEST), ("", "/"), strict=False):
            look = {"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay"}}
            said = [f"{_bin(edges, i, log=log)}: {n} pairs, {one}" for i, n in
                    enumerate(counts[one])]  # fmt: skip
            figure.add_trace(
                go.Bar(
                    x=middles.tolist(),
                    y=counts[one].tolist(),
                    name=one,
                    opacity=0.65,
                    marker=look,
                    hovertext=said,
                    hoverinfo="text",
                )
            )
        figure.add_vline(x=limit, line={"color": INK, "width": 2, "dash": "dot"})
        if log:
            ticks = range(math.floor(edges[0]), math.ceil(edges[-1]) + 1)
            shown = [*ticks][:: max(1, math.ceil(len(ticks) / 6))]
            figure.update_xaxes(tickvals=shown, ticktext=[f"1e{tick}" for tick in shown])
        return figure

    at = f"the dotted line is the threshold, {word(entry['threshold'])}"
    what = "label" if entry["kind"] == "rte" else "which sentence is longer"
    said = f"Scores of {entry['task']} by {what}; {at}."
    rows: list[list[Cell | str]] = [
        [_bin(edges, i, log=log), *(f"{counts[one][i]:,}" for one in names)] for i in range(BINS)
    ]
    table = Table(heads=("score", *names), rows=rows, numbers=("score", *names))
    return Chart(name, f"Scores, {entry['task']}", said, draw, table)


def by_length(entry: Mapping[str, Any], name: str) -> Chart:
    """The share of right decisions by how much longer the first sentence is."""
    places = np.searchsorted(LENGTHS, entry["surplus"])
    right = np.array(hits(entry))
    ends = [
        f"{low + 1} to {high}" if high - low > 1 else str(high) for low, high in pairwise(LENGTHS)
    ]
    bands = [f"≤ {LENGTHS[0]}", *ends, f"> {LENGTHS[-1]}"]
    found = [(band, right[places == place]) for place, band in enumerate(bands)]
    kept = [(band, of) for band, of in found if len(of)]

    def draw() -> go.Figure:
        import plotly.graph_objects as go

        figure = canvas("first longer by (characters)", "right")
        said = [f"{band}: {of.mean():.1%} of {len(of)} pairs" for band, of in kept]
        figure.add_trace(
            go.Bar(
                x=[band for band, _ in kept],
                y=[100 * float(of.mean()) for _, of in kept],
                marker={"color": ACCENT},
                text=[f"{len(of)}" for _, of in kept],
                textposition="outside",
                cliponaxis=False,
                hovertext=said,
                hoverinfo="text",
            )
        )
        figure.update_yaxes(range=[0, 112], ticksuffix=" %", dtick=25)
        figure.update_xaxes(type="category")
        return figure

    rule = " Length alone is right wherever the first is longer." * (entry["kind"] == "direction")
    said = f"Share of right decisions by the difference of lengths; above a bar its pairs.{rule}"
    rows = [(band, percent(float(of.mean())), f"{len(of):,}") for band, of in kept]
    heads = ("first longer by", "right", "pairs")
    table = Table(heads=heads, rows=rows, numbers=heads[1:])
    return Chart(name, f"Accuracy by length, {entry['task']}", said, draw, table)


def similarities(entry: Mapping[str, Any], name: str) -> Chart:
    """Human scores against the model's similarities."""
    pairs = zip(entry["gold"], entry["scores"], strict=True)
    known = np.array([(gold, score) for gold, score in pairs if score is not None])

    def draw() -> go.Figure:
        import plotly.graph_objects as go

        figure = canvas("human score", "similarity")
        mark = {"color": ACCENT, "size": 6, "opacity": 0.45}
        x, y = known[:, 0].tolist(), known[:, 1].tolist()
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=mark))
        return figure

    said = f"Each point is a pair of {entry['task']}."
    edges = np.linspace(known[:, 0].min(), known[:, 0].max(), 6)
    places = np.clip(np.searchsorted(edges, known[:, 0], side="right") - 1, 0, 4)
    rows = [
        (f"{edges[i]:.2f} to {edges[i + 1]:.2f}", f"{of.mean():.4g}", f"{of.std():.2g}",
         f"{len(of):,}")
        for i in range(5)
        if len(of := known[places == i, 1])
    ]  # fmt: skip
    heads = ("human score", "mean similarity", "deviation", "pairs")
    table = Table(heads=heads, rows=rows, numbers=heads[1:])
    return Chart(name, f"Similarity, {entry['task']}", said, draw, table)


def embedding_map(content: Mapping[str, Any]) -> Chart | None:
    """Pairs of sentences in the plane of the two principal components, joined by a line."""
    if not (found := content.get("map")):
        return None
    pairs = found["pairs"]
    kinds = sorted({pair["kind"] for pair in pairs})

    def draw() -> go.Figure:
        import plotly.graph_objects as go

        figure = canvas("first component", "second component", height=440, hovermode="closest")
        for kind, colour, dash in zip(kinds, (ACCENT, BEST), ("solid", "dot"), strict=False):
            of = [pair for pair in pairs if pair["kind"] == kind]
            ends = [[*pair["places"], (None, None)] for pair in of]
            x, y = ([end[axis] for line in ends for end in line] for axis in (0, 1))
            said = [text for pair in of for text in (*_hovers(pair), "")]
            figure.add_trace(
                go.Scatter(
                    x=x,
                    y=y,
                    name=safe(kind),
                    mode="lines+markers",
                    line={"color": colour, "width": 1, "dash": dash},
                    marker={"size": 7, "symbol": ["circle", "diamond-open", "circle"] * len(of)},
                    hovertext=said,
                    hoverinfo="text",
                )
            )
        return figure

    shares = ", ".join(percent(share) for share in found["explained"])
    said = (
        f"{len(pairs)} pairs, the first sentence a disc and the second a diamond, by the two "
        f"principal components of the embeddings' centres ({shares} of the variance)."
    )
    heads = ("kind", "first", "second", "first at", "second at")
    rows = [
        (pair["kind"], pair["first"], pair["second"], *(_place(at) for at in pair["places"]))
        for pair in pairs
    ]
    table = Table(heads=heads, rows=rows, wide=heads[1:3])
    return Chart("embedding_map", "Map of embeddings", said, draw, table, wide=True)


def regions(content: Mapping[str, Any]) -> Iterator[Chart]:
    """Yield the boxes or Gaussians of a few pairs, each in two dimensions of the space."""
    for number, pair in enumerate(content.get("shapes", ())):
        what = "two boxes" if pair["shape"] == "box" else "one standard deviation of two Gaussians"
        dimensions = " and ".join(map(str, pair["dimensions"]))
        decided = f"decided {'rightly' if pair['outcome'] == 'right' else 'wrongly'}"
        title = f"{word(pair['label'])}, {decided} (score {word(pair['score'])})"
        said = (
            f"A: “{pair['first']}”, B: “{pair['second']}”; {what} in dimensions {dimensions}, "
            "where they differ most."
        )
        heads = ("sentence", "dimension", "centre", "from", "to")
        rows = [
            (letter, f"{dimension}", word(centre), word(centre - reach), word(centre + reach))
            for letter, centres, sides in zip("AB", pair["centre"], pair["reach"], strict=True)
            for dimension, centre, reach in zip(pair["dimensions"], centres, sides, strict=True)
        ]
        table = Table(heads=heads, rows=rows, numbers=heads[1:])
        draw = partial(_draw_regions, pair)
        yield Chart(f"region_{number}", title[0].upper() + title[1:], said, draw, table)


def _draw_regions(pair: Mapping[str, Any]) -> go.Figure:
    import plotly.graph_objects as go

    names = [f"dimension {dimension}" for dimension in pair["dimensions"]]
    figure = canvas(*names, hovermode="closest")
    turn = np.linspace(0, 2 * np.pi, 73)
    unit = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if pair["shape"] == "box":
        unit = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)], dtype=np.float64)
    look = zip("AB", ("first", "second"), (ACCENT, BEST), ("solid", "dash"), strict=True)
    for side, (letter, text, colour, dash) in enumerate(look):
        edge: NDArray[np.float64] = _pair_of(pair["centre"][side]) + unit * _pair_of(
            pair["reach"][side]
        )
        figure.add_trace(
            go.Scatter(
                x=edge[:, 0].tolist(),
                y=edge[:, 1].tolist(),
                name=f"{letter}, {text} sentence",
                mode="lines",
                fill="toself",
                fillcolor=_faint(colour),
                line={"color": colour, "width": 2, "dash": dash},
                text=hover(pair[text]),
                hoverinfo="text",
                hoveron="fills",
            )
        )
    centres, sides = np.array(pair["centre"]), np.array(pair["reach"])
    low, high = (centres - sides).min(0), (centres + sides).max(0)
    room = 0.06 * (high - low)
    axes = (figure.update_xaxes, figure.update_yaxes)
    for axis, ends in zip(axes, np.stack([low - room, high + room], axis=1), strict=False):
        axis(range=ends.tolist())
    return figure


def losses(view: View) -> Chart | None:
    """The training loss of each trial by examples."""
    curves = {trial.id: finite_curve(trial, LOSS) for trial in view.ranked}
    curves = {number: curve for number, curve in curves.items() if len(curve) > 1}
    if not curves:
        return None
    best = view.best.id if view.best is not None else None

    def draw() -> go.Figure:
        import plotly.graph_objects as go

        figure = canvas("examples seen", "training loss", hovermode="closest")
        for number, curve in reversed(curves.items()):
            won = number == best
            figure.add_trace(
                go.Scatter(
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
            )
        return figure

    said = "Mean training loss since the milestone before, of each trial with two or more."
    heads = ("trial", "examples", "loss")
    rows = [
        (str(number), f"{at:,}", measured(LOSS, loss))
        for number, curve in sorted(curves.items())
        for at, loss in curve.items()
    ]
    return Chart(
        "losses", "Training loss", said, draw, Table(heads=heads, rows=rows, numbers=heads)
    )


def dev_and_test(view: View) -> Chart | None:
    """Every metric of the winner on dev with its deviation over seeds, and on test."""
    rules, known = view.summary.baselines, {}
    for name, over in view.measured.items():
        test = view.summary.test.get(name)
        if test is None or name in rules or of_subset(name) or name.endswith(ERROR):
            continue
        task, _, last = name.rpartition("/")  # accuracies that are equal are one row
        key = task if last in ACCURACIES else name
        if measured(name, test).endswith("%"):
            known[key, over.mean, test] = name, over, test
    shown = [*known.values()]
    if not shown:
        return None
    names = [safe(name) for name, _, _ in shown]

    def draw() -> go.Figure:
        import plotly.graph_objects as go

        figure = canvas("", "", height=90 + 30 * len(shown), hovermode="closest")
        deviations = [100 * over.sd for _, over, _ in shown]
        bars = {"type": "data", "array": deviations, "color": ACCENT}
        several = any(len(over.values) > 1 for _, over, _ in shown)
        figure.add_trace(
            go.Scatter(
                x=[100 * over.mean for _, over, _ in shown],
                y=names,
                name="dev, mean ± sd over seeds" if several else "dev",
                mode="markers",
                marker={"color": ACCENT, "size": 9, "symbol": "circle-open"},
                error_x=bars if several else None,
            )
        )
        x = [100 * test for _, _, test in shown]
        mark = {"color": BEST, "size": 9, "symbol": "diamond"}
        figure.add_trace(
            go.Scatter(x=x, y=names, name="test, this model", mode="markers", marker=mark)
        )
        figure.update_xaxes(ticksuffix=" %", hoverformat=".1f", showgrid=True)
        figure.update_yaxes(autorange="reversed", type="category")
        figure.update_layout(margin={"r": 24})
        return figure

    said = "Metrics of the winner on dev, which it was chosen by, and of the shipped model on test."
    rows = [(name, spread(name, over), measured(name, test)) for name, over, test in shown]
    heads = ("metric", "dev", "test")
    table = Table(heads=heads, rows=rows, numbers=heads[1:], wide=heads[:1])
    return Chart("dev_and_test", "Dev against test", said, draw, table)


def _bin(edges: NDArray[np.float64], place: int, *, log: bool) -> str:
    low, high = (10**edge if log else edge for edge in edges[place : place + 2])
    return f"{low:.3g} to {high:.3g}"


def _hovers(pair: Mapping[str, Any]) -> tuple[str, str]:
    return hover(pair["first"]), hover(pair["second"])


def _place(at: Sequence[float]) -> str:
    return ", ".join(word(number) for number in at)


def _pair_of(values: Sequence[float]) -> NDArray[np.float64]:
    """Two numbers; of a space of one dimension the second is 0."""
    return np.array([*values, 0.0][:2])


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.15)"
