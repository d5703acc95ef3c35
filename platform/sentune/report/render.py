"""A report as blocks, and how those become one HTML page or Markdown by the templates beside."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any, ClassVar, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sentune.credentials import without_credentials

_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell; columns are sorted by ``key``, by the text where it is None."""

    text: str
    key: float | None = None
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class ColumnHead:
    """A column's head; numbers are right-aligned, ``wide`` columns wrap."""

    title: str
    number: bool = False
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under heads; a reader may sort a ``sortable`` one, one ``beside`` stands by pictures."""

    kind: ClassVar[str] = "table"
    columns: Sequence[ColumnHead]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False
    caption: str = ""
    beside: bool = False

    @property
    def lines(self) -> list[list[tuple[Cell, ColumnHead]]]:
        """Each row's cells with their columns.

        Raises:
            ValueError: a row has more or fewer cells than the table has columns.
        """
        return [list(zip(row, self.columns, strict=True)) for row in self.rows]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A self-contained ``<svg>`` element with its description in words and its numbers."""

    kind: ClassVar[str] = "picture"
    title: str
    description: str
    svg: str
    table: Table | None = None
    wide: bool = False

    @property
    def beside(self) -> bool:
        """Whether it stands in a grid with others."""
        return not self.wide


@dataclass(frozen=True, kw_only=True)
class Text:
    """A paragraph; ``tone`` is ``lead``, ``note``, ``warning`` or empty."""

    kind: ClassVar[str] = "text"
    beside: ClassVar[bool] = False
    text: str
    tone: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names with their values, in a row of boxes."""

    kind: ClassVar[str] = "facts"
    beside: ClassVar[bool] = False
    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class CodeBlock:
    """A command, verbatim."""

    kind: ClassVar[str] = "code"
    beside: ClassVar[bool] = False
    text: str


@dataclass(frozen=True, kw_only=True)
class Folded:
    """Blocks behind a heading that opens them."""

    kind: ClassVar[str] = "folded"
    beside: ClassVar[bool] = False
    title: str
    blocks: Sequence[Table | Text | CodeBlock]


Block: TypeAlias = Table | Picture | Text | Facts | CodeBlock | Folded


@dataclass(frozen=True, kw_only=True)
class Section:
    """Blocks under a heading; ``name`` is its anchor."""

    name: str
    title: str
    blocks: Sequence[Block]

    @property
    def runs(self) -> list[tuple[bool, list[Block]]]:
        """Blocks that follow one another, with whether they stand beside each other."""
        grouped = itertools.groupby(self.blocks, key=lambda block: block.beside)
        return [(beside, list(run)) for beside, run in grouped]


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """A report; ``title`` is the study's name, ``subtitle`` its method and objective."""

    title: str
    state: str
    subtitle: str
    sections: Sequence[Section] = field(default_factory=tuple)


def row(*texts: str) -> list[Cell]:
    """Cells of plain texts."""
    return [Cell(text=text) for text in texts]


def columns(
    *titles: str, numbers: Sequence[str] = (), wide: Sequence[str] = ()
) -> list[ColumnHead]:
    """Heads, those named in ``numbers`` to the right and those in ``wide`` with room."""
    return [ColumnHead(title=t, number=t in numbers, wide=t in wide) for t in titles]


def to_html(report: StudyReport) -> str:
    """The whole page, which loads nothing. No text of a study is markup or holds a credential."""
    return _environment(_html_text).get_template("report.html").render(report=report, file=_file)


def to_markdown(report: StudyReport) -> str:
    """The same words and tables; a picture is its description and numbers.

    What Markdown or HTML would take for its own is escaped.
    """
    text = _environment(_markdown_text).get_template("report.md").render(report=report)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def to_interactive_html(title: str, figures: Sequence[tuple[str, str]]) -> str:
    """One page of plotly's figures, with plotly.js (4.8 MB) in it once.

    Args:
        figures: heading and ``<div>`` of each, without plotly.js.
    """
    from plotly.offline import get_plotlyjs

    template = _environment(_html_text).get_template("figures.html")
    return template.render(title=title, figures=figures, file=_file, plotly=Markup(get_plotlyjs()))


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
    environment.filters["code"] = _indented
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
    folder: Any = resources.files("sentune.report").joinpath("templates")
    return Markup(folder.joinpath(name).read_text(encoding="utf-8"))
