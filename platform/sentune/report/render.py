"""Rendering of a report as HTML or Markdown, by the templates in ``templates/``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from html import escape
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sentune.credentials import without_credentials
from sentune.report.blocks import StudyReport
from sentune.report.drawing import COLOURS, to_json, to_svg

_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")


def to_html(report: StudyReport) -> str:
    """Return a self-contained HTML page, with texts escaped and credentials removed.

    The page of a report with charts contains plotly.js (4.8 MB).
    """
    plotly = ""
    if report.interactive:
        from plotly.offline import get_plotlyjs

        plotly = Markup(get_plotlyjs())
    template = _environment(_html_text).get_template("report.html")
    return template.render(report=report, plotly=plotly)


def to_markdown(report: StudyReport) -> str:
    """Return the report as Markdown, with descriptions and tables in place of figures.

    Markdown and HTML syntax in texts is escaped; credentials are removed.
    """
    text = _environment(_markdown_text).get_template("report.md").render(report=report)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


@functools.cache
def _environment(clean: Callable[[object], object]) -> Environment:
    """Return a jinja2 environment that passes each value through ``clean`` before escaping it."""
    environment = Environment(
        loader=PackageLoader("sentune.report"),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code": _indented,
        "unbroken": lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%"),
        "svg": lambda figure: Markup(to_svg(figure)),
        "plotly": lambda chart: Markup(to_json(chart)),
    }
    rgb = {name: "rgb({}, {}, {})".format(*bytes.fromhex(of[1:])) for name, of in COLOURS.items()}
    colours = [(name, of, rgb[name]) for name, of in COLOURS.items()]  # plotly writes rgb()
    environment.globals |= {"file": _file, "colours": colours}
    return environment


def _html_text(value: object) -> object:
    return value if isinstance(value, Markup) else without_credentials(value)


def _markdown_text(value: object) -> Markup:
    """Return a value as one line of escaped Markdown without credentials."""
    if isinstance(value, Markup):
        return value
    line = " ".join(str(without_credentials(value)).split())
    return Markup(_MARKDOWN.sub(r"\\\1", escape(line, quote=False)))


def _indented(text: str) -> Markup:
    """Return code as an indented Markdown block, in which nothing needs escaping."""
    return Markup("\n".join("    " + line for line in without_credentials(text).splitlines()))


def _file(name: str) -> Markup:
    """Return the unescaped content of a file in ``templates/``."""
    return Markup(resources.files(__package__).joinpath("templates", name).read_text("utf-8"))
