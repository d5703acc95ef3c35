"""Figures of matplotlib as SVG for a page: text as text, colours of the page, nothing outside.

Colours are drawn as fixed values and become the page's variables, so that a drawing is readable on
light and on dark paper.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from sentune.records import TrialState

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE = "#1c2126", "#5d656d", "#dfe3e7"
ACCENT, BEST, BAND = "#2f62a3", "#b8344a", "#c9d9ee"

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    LINE: "--line",
    ACCENT: "--accent",
    BEST: "--best",
    BAND: "--band",
    # what the pictures of sentune.tracking are drawn with
    "#000000": "--ink",
    "#6b7075": "--muted",
    "#e6e8ea": "--line",
    "#3b6ea8": "--accent",
    "#d1495b": "--best",
    "#1f77b4": "--accent",
    "#ffffff": "--paper",
}
MARKERS: dict[TrialState, dict[str, Any]] = {
    TrialState.COMPLETE: {"marker": "o", "facecolor": ACCENT, "edgecolor": ACCENT},
    TrialState.PRUNED: {"marker": "v", "facecolor": "none", "edgecolor": MUTED},
    TrialState.RUNNING: {"marker": "o", "facecolor": "none", "edgecolor": ACCENT},
    TrialState.FAILED: {"marker": "x", "color": BEST},
    TrialState.INFEASIBLE: {"marker": "D", "facecolor": "none", "edgecolor": BEST},
}
"""Shapes tell the states apart; colour only helps."""

_NAMESPACE = re.compile(r"^\{[^}]*\}")
_ILLEGAL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def figure(width: float = 5.0, height: float = 3.3) -> tuple[Figure, Axes]:
    """A figure of its own (pyplot's global state is not for threads), in inches."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(labelsize=9, color=MUTED, labelcolor=INK)
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    return made, axes


def plain(text: object, most: int = 40) -> str:
    """A text in which matplotlib sees no formula and XML no forbidden sign, at most so long."""
    kept = _ILLEGAL.sub("�", " ".join(str(text).split()))
    shown = kept if len(kept) <= most else kept[: most - 1] + "…"
    return shown.replace("$", r"\$")


def to_svg(drawn: Figure, name: str, title: str) -> str:
    """An ``<svg>`` element with its title, for use inside a page.

    Args:
        drawn: the figure.
        name: letters and digits, one of a kind in the page: every id begins with it.
        title: read out in place of the drawing.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        drawn.savefig(buffer, format="svg", transparent=True)
    root = ElementTree.fromstring(_without_doctype(buffer.getvalue()))
    for element in root.iter():
        _clean(element, name)
    _drop_frame(root)
    root.attrib.pop("version", None)
    root.attrib.update({"class": name, "role": "img", "aria-labelledby": f"{name}-title"})
    said = ElementTree.Element("title", {"id": f"{name}-title"})
    said.text = _ILLEGAL.sub("�", title)
    root.insert(0, said)
    return ElementTree.tostring(root, encoding="unicode")


def _without_doctype(text: str) -> str:
    return text[text.index("<svg") :]


def _drop_frame(root: ElementTree.Element) -> None:
    """Who made it and when, and a style that would apply to the whole page."""
    for child in list(root):
        if child.tag == "metadata" or (child.tag == "defs" and child.find("style") is not None):
            root.remove(child)


def _clean(element: ElementTree.Element, name: str) -> None:
    """No namespaces (HTML knows them), ids of this drawing alone, colours of the page."""
    element.tag = _NAMESPACE.sub("", element.tag)
    for key in list(element.attrib):
        value = element.attrib.pop(key)
        key = _NAMESPACE.sub("", key)
        if key == "id":
            value = f"{name}-{value}"
        elif key == "href":
            value = value.replace("#", f"#{name}-")
        else:
            value = value.replace("url(#", f"url(#{name}-")
            value = _coloured(value)
        element.attrib[key] = value


def _coloured(value: str) -> str:
    return re.sub(
        r"#[0-9a-f]{6}",
        lambda found: f"var({_VARIABLES[found[0]]})" if found[0] in _VARIABLES else found[0],
        value,
    )
