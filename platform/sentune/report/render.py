"""Rendering of a report as one HTML page or Markdown, by the templates beside."""

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
from sentune.report.drawing import COLOURS, plotly_js, to_json, to_svg

_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")


def to_html(report: StudyReport) -> str:
    """The whole page, which loads nothing. No text of a study is markup or holds a credential.

    A report with charts has plotly.js (4.8 MB) in it.
    """
    plotly = Markup(plotly_js()) if report.interactive else ""
    template = _environment(_html_text).get_template("report.html")
    return template.render(report=report, plotly=plotly)


def to_markdown(report: StudyReport) -> str:
    """The same words and tables; a figure is its description and numbers.

    What Markdown or HTML would take for its own is escaped.
    """
    text = _environment(_markdown_text).get_template("report.md").render(report=report)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


@functools.cache
def _environment(clean: Callable[[object], object]) -> Environment:
    """Templates in which ``clean`` sees every value before it is escaped."""
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
    """One line in which nothing is markup and nothing a credential."""
    if isinstance(value, Markup):
        return value
    line = " ".join(str(without_credentials(value)).split())
    return Markup(_MARKDOWN.sub(r"\\\1", escape(line, quote=False)))


def _indented(text: str) -> Markup:
    """Code as Markdown has it: indented, which needs no escaping."""
    return Markup("\n".join("    " + line for line in without_credentials(text).splitlines()))


def _file(name: str) -> Markup:
    """A style sheet or script of this package, as it is."""
    return Markup(resources.files(__package__).joinpath("templates", name).read_text("utf-8"))
