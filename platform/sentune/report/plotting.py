"""How a chart becomes plotly's JSON inside a page.

Its colours are those of ``drawing``, which style.css maps to the page's own.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from sentune.credentials import without_credentials
from sentune.report.blocks import Chart
from sentune.report.drawing import INK, LINE, MUTED

if TYPE_CHECKING:
    import plotly.graph_objects as go

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
"""The font of style.css, with whose widths plotly places what it draws."""

MOST = 90
"""Letters on a line of a text beside the pointer."""


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
    axis |= {"automargin": True, "title": {"standoff": 6}}
    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        dragmode=False,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        font={"size": 12, "color": INK, "family": FONT},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        xaxis=axis | {"title": {"text": safe(x), "standoff": 6}, "showgrid": False},
        yaxis=axis | {"title": {"text": safe(y), "standoff": 6}},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure.update_layout(**layout)


def safe(text: object) -> str:
    """Return a text in which plotly, which obeys some tags of HTML, sees none."""
    return escape(str(without_credentials(str(text))), quote=False)


def hover(text: str) -> str:
    """Return a text of several lines for the pointer."""
    import textwrap

    return "<br>".join(safe(line) for line in textwrap.wrap(text, MOST // 2)[:6])


def to_json(chart: Chart) -> str:
    """Return the chart as JSON in which no tag of HTML can begin or end."""
    return str(chart.draw().to_json()).replace("<", "\\u003c")
