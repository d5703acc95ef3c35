"""Conversion of figures to SVG and PNG, and of charts to plotly's JSON.

Drawings use fixed colours, which the page maps to CSS variables for its light and dark themes.
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
from sentune.formatting import is_share, measured
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
"""CSS variable of style.css -> the fixed colour that it replaces in drawings."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
"""The font of style.css; plotly's layout depends on its widths."""
UNSIGNED = dict.fromkeys(("Creator", "Date", "Format", "Type"))
"""Metadata of an SVG file: none, so that equal drawings are equal files."""
MARKERS: dict[TrialState, dict[str, Any]] = {
    TrialState.COMPLETE: {"marker": "o", "facecolor": ACCENT, "edgecolor": ACCENT},
    TrialState.PRUNED: {"marker": "v", "facecolor": "none", "edgecolor": MUTED},
    TrialState.RUNNING: {"marker": "o", "facecolor": "none", "edgecolor": ACCENT},
    TrialState.FAILED: {"marker": "x", "color": BEST},
    TrialState.INFEASIBLE: {"marker": "D", "facecolor": "none", "edgecolor": BEST},
}
"""Marker of each state; the shapes differ, so that no state is told by colour alone."""

_ILLEGAL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def to_canvas(figure: Figure) -> Canvas:
    """Draw the figure on a new canvas, without pyplot, whose global state is not thread-safe."""
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
    if axes.get_legend_handles_labels()[0]:  # placed above the axes, where it covers no data
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
    """Write ``NAME.png`` with the title above and the description below, and return its path.

    ``heading`` is a prefix of the title, for example the study's name.
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
    """Return the figure as an ``<svg>`` element to embed in an HTML page.

    Text is kept as text. Only elements that are referenced keep their ids, which are unique on the
    page.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.name}):
        to_canvas(figure).savefig(buffer, format="svg", transparent=True, metadata=UNSIGNED)
    text = buffer.getvalue()
    root = ElementTree.fromstring(text[text.index("<svg") :])
    for style in root.findall("{*}defs[{*}style]"):  # it would apply to the whole page
        root.remove(style)
    for path in root.iterfind(".//{*}defs/{*}path"):  # each <use> has the complete style
        path.attrib.pop("style", None)
    for group in root.iterfind(".//{*}g"):
        group.attrib.pop("id", None)
    for element in root.iter():  # SVG in HTML needs no namespaces
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
    """Return a text of at most ``most`` characters without matplotlib formulas and illegal XML."""
    kept = _clean(" ".join(str(text).split()))
    shown = kept if len(kept) <= most else kept[: most - 1] + "…"
    return shown.replace("$", r"\$")


def scatter(
    axes: Axes, state: TrialState, points: Sequence[tuple[float, float]], label: str, **more: Any
) -> None:
    """Draw trials of one state as points with its marker."""
    if points:
        x, y = zip(*points, strict=True)
        look = {"s": 26, "lw": 1.2, "zorder": 3, **MARKERS[state], **more}
        axes.scatter(x, y, label=label, **look)


def metric_axis(axes: Axes, metric: str, along: str = "y") -> None:
    """Label an axis with a metric and format its ticks in the metric's unit."""
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_label_text(plain(metric))
    if is_share(metric):
        percent_axis(axis)
    else:
        axis.set_major_formatter(lambda value, _: measured(metric, value))


def percent_axis(axis: XAxis | YAxis) -> None:
    """Format the ticks of an axis of fractions in percent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.4g} %")


def canvas(x: str = "", y: str = "", *, height: int = 300, **layout: Any) -> go.Figure:
    """Return an empty plotly figure that fills its container and does not block touch scrolling.

    Args:
        x, y: titles of the axes.
        height: in pixels.
        layout: further arguments of plotly's ``update_layout``.
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
    """Return a text without credentials, with HTML escaped because plotly renders some tags."""
    return escape(str(without_credentials(str(text))), quote=False)


def hover(text: str) -> str:
    """Return a text wrapped to at most six lines, for hovering."""
    return "<br>".join(safe(line) for line in textwrap.wrap(text, 45)[:6])


def to_json(chart: Chart) -> str:
    """Return the chart as JSON that is safe inside an HTML ``<script>`` element."""
    return str(chart.draw().to_json()).replace("<", "\\u003c")


def _clean(text: str) -> str:
    return _ILLEGAL.sub("�", str(without_credentials(text)))
