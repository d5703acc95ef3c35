"""Drawing of figures as SVG for a page and PNG for a folder, of charts as plotly's JSON.

Colours are fixed values, which a page maps to its own, so that a drawing is readable on light and
on dark paper.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from sentune.credentials import without_credentials
from sentune.formatting import measured
from sentune.records import TrialState
from sentune.report.blocks import Chart, Figure

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure as Canvas

INK, MUTED, LINE, PAPER = "#1c2126", "#5d656d", "#dfe3e7", "#ffffff"
ACCENT, BEST = "#2f62a3", "#b8344a"
COLOURS = {
    "ink": INK, "muted": MUTED, "line": LINE, "paper": PAPER, "accent": ACCENT, "best": BEST,
}  # fmt: skip
"""Variable of style.css -> the fixed colour that takes its value."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
"""The font of style.css, with whose widths plotly places what it draws."""
MARKERS: dict[TrialState, dict[str, Any]] = {
    TrialState.COMPLETE: {"marker": "o", "facecolor": ACCENT, "edgecolor": ACCENT},
    TrialState.PRUNED: {"marker": "v", "facecolor": "none", "edgecolor": MUTED},
    TrialState.RUNNING: {"marker": "o", "facecolor": "none", "edgecolor": ACCENT},
    TrialState.FAILED: {"marker": "x", "color": BEST},
    TrialState.INFEASIBLE: {"marker": "D", "facecolor": "none", "edgecolor": BEST},
}
"""Shapes tell the states apart; colour only helps."""

_ILLEGAL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def to_canvas(figure: Figure) -> Canvas:
    """The figure drawn, on a canvas of its own (pyplot's global state is not for threads)."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(figure.width, figure.height), layout="constrained")
    axes = canvas.add_subplot()
    if figure.framed:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(MUTED)
        axes.tick_params(labelsize=9, color=MUTED, labelcolor=INK)
        for axis in (axes.xaxis, axes.yaxis):
            axis.label.set(size=9, color=INK)
        axes.grid(axis="y", color=LINE, linewidth=0.8)
        axes.set_axisbelow(True)
    figure.draw(axes)
    if axes.get_legend_handles_labels()[0]:  # above the drawing it covers nothing
        axes.legend(
            frameon=False,
            fontsize=8.5,
            ncols=3,
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            borderaxespad=0,
            handletextpad=0.4,
            columnspacing=1.0,
            labelcolor=INK,
        )
    return canvas


def write_png(figure: Figure, folder: Path, heading: str = "") -> Path:
    """Writes ``NAME.png``, with the figure's words above and below it.

    Args:
        heading: what the figure is of, in front of its title.
    """
    canvas, columns = to_canvas(figure), round(15 * figure.width)
    said = textwrap.wrap(plain(figure.description, 400), columns)
    canvas.set_figheight(figure.height + 0.5 + 0.17 * len(said))
    title = plain(f"{heading}: {figure.title}" if heading else figure.title, columns)
    canvas.suptitle(title, x=0.02, ha="left", size=11, weight="bold", color=INK)
    canvas.supxlabel("\n".join(said), x=0.02, ha="left", size=8, color=MUTED)
    folder.mkdir(parents=True, exist_ok=True)
    canvas.savefig(folder / f"{figure.name}.png", dpi=150, facecolor="white")
    return folder / f"{figure.name}.png"


def to_svg(figure: Figure) -> str:
    """An ``<svg>`` element with its title, for use inside a page.

    Texts stay texts. Only what is referred to keeps its id, which no other figure's element has.
    """
    import matplotlib as mpl

    buffer, unsigned = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.name}):
        to_canvas(figure).savefig(buffer, format="svg", transparent=True, metadata=unsigned)
    text = buffer.getvalue()
    root = ElementTree.fromstring(text[text.index("<svg") :])
    for style in root.findall("{*}defs[{*}style]"):  # the whole page would take it
        root.remove(style)
    for path in root.iterfind(".//{*}defs/{*}path"):  # it is used with its whole style
        path.attrib.pop("style", None)
    for group in root.iterfind(".//{*}g"):
        group.attrib.pop("id", None)
    for element in root.iter():  # HTML knows the namespaces
        element.tag = element.tag.rpartition("}")[2]
        for name in [name for name in element.attrib if "}" in name]:
            element.set(name.rpartition("}")[2], element.attrib.pop(name))
    root.attrib.pop("version", None)
    title = ElementTree.Element("title", {"id": f"{figure.name}-title"})
    title.text = _clean(f"{figure.title}: {figure.description}")
    root.insert(0, title)
    root.attrib |= {"class": figure.name, "role": "img", "aria-labelledby": title.attrib["id"]}
    return ElementTree.tostring(root, encoding="unicode")


def plain(text: object, most: int = 40) -> str:
    """A text in which matplotlib sees no formula and XML no forbidden sign, at most so long."""
    kept = _clean(" ".join(str(text).split()))
    shown = kept if len(kept) <= most else kept[: most - 1] + "…"
    return shown.replace("$", r"\$")


def scatter(
    axes: Axes,
    state: TrialState,
    points: Sequence[tuple[float, float]],
    label: str,
    **more: Any,
) -> None:
    """Draws trials of one state, in its shape."""
    if points:
        x, y = zip(*points, strict=True)
        look = {"s": 26, "lw": 1.2, "zorder": 3, **MARKERS[state], **more}
        axes.scatter(x, y, label=label, **look)


def metric_axis(axes: Axes, metric: str, along: str = "y") -> None:
    """Shows a metric in its unit."""
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_label_text(plain(metric))
    if measured(metric, 0.5).endswith("%"):
        percent_axis(axis)
    else:
        axis.set_major_formatter(lambda value, _: measured(metric, value))


def percent_axis(axis: XAxis | YAxis) -> None:
    """Shows fractions in percent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.4g} %")


def plotly_js() -> str:
    """Return plotly.js, 4.8 MB."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def canvas(x: str = "", y: str = "", *, height: int = 300, **layout: Any) -> go.Figure:
    """Return an empty figure that is as wide as its place and lets a page scroll under a finger.

    Args:
        x, y: titles of the axes.
        height: pixels.
        layout: whatever else plotly's layout has.
    """
    import plotly.graph_objects as go

    axis = {"gridcolor": LINE, "zeroline": False, "linecolor": MUTED, "fixedrange": True}
    axis |= {"automargin": True, "title_standoff": 6}
    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        dragmode=False,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        font={"size": 12, "color": INK, "family": FONT},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis={**axis, "title_text": safe(x), "showgrid": False},
        yaxis={**axis, "title_text": safe(y)},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure.update_layout(**layout)


def safe(text: object) -> str:
    """Return a text in which plotly, which obeys some tags of HTML, sees none."""
    return escape(str(without_credentials(str(text))), quote=False)


def hover(text: str) -> str:
    """Return a text of up to six lines for the pointer."""
    return "<br>".join(safe(line) for line in textwrap.wrap(text, 45)[:6])


def to_json(chart: Chart) -> str:
    """Return the chart as JSON in which no tag of HTML can begin or end."""
    return str(chart.draw().to_json()).replace("<", "\\u003c")


def _clean(text: str) -> str:
    return _ILLEGAL.sub("�", str(without_credentials(text)))
