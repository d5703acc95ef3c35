"""Building blocks of a report: texts, facts, tables, figures and sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from sentune.formatting import is_number, measured, setting

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.axes import Axes

LONG = 24
"""Characters of a cell above which its column wraps."""


class Cell(NamedTuple):
    """A table cell; numeric cells have a ``key`` to sort the column by."""

    text: str
    key: float | None = None
    strong: bool = False


Row: TypeAlias = Sequence[Cell | str | int]
"""Cells of a row, as cells, texts or integers."""


class Column(NamedTuple):
    """A table column; ``kind`` is ``number`` (right-aligned), ``wide`` (wraps) or empty."""

    head: str
    kind: str
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with a caption.

    Attributes:
        sortable: whether a click on a head sorts the rows.
        beside: whether the table takes one grid column, beside a figure, not the full width.
        folded: heading under which the table is collapsed; empty: it is always open.
    """

    kind: ClassVar[str] = "table"
    heads: Sequence[str]
    rows: Sequence[Row]
    caption: str = ""
    sortable: bool = False
    beside: bool = False
    folded: str = ""

    @cached_property
    def columns(self) -> list[Column]:
        """Return the columns that are not empty.

        Raises:
            ValueError: a row has more or fewer cells than the table has heads.
        """
        found = []
        for head, *values in zip(self.heads, *self.rows, strict=True):
            cells = [_cell(value) for value in values]
            if any(cell.key is not None for cell in cells):
                kind = "number"
            else:
                kind = "wide" if any(len(cell.text) > LONG for cell in cells) else ""
            if not cells or any(cell.text for cell in cells):
                found.append(Column(str(head), kind, cells))
        return found

    @property
    def lines(self) -> list[tuple[tuple[Cell, str], ...]]:
        """Return the cells of each row with the kinds of their columns."""
        columns = ([(cell, kind) for cell in cells] for _, kind, cells in self.columns)
        return [*zip(*columns, strict=True)]


@dataclass(frozen=True)
class Figure:
    """A figure that matplotlib draws.

    Attributes:
        name: unique in a report, of letters, digits and ``_``; also the name of its PNG file.
        title, description: caption, which is also the text for screen readers.
        width, height: size in inches.
        table: the plotted numbers.
        wide: whether the figure takes the full width of the page.
        framed: whether the axes have a frame, ticks and a grid.
    """

    kind: ClassVar[str] = "figure"
    name: str
    title: str
    description: str
    draw: Callable[[Axes], None]
    width: float = 5.0
    height: float = 3.3
    table: Table | None = None
    wide: bool = False
    framed: bool = True


@dataclass(frozen=True)
class Chart:
    """A figure that plotly draws in the browser; Markdown shows its table instead.

    See ``Figure`` for the fields.
    """

    kind: ClassVar[str] = "chart"
    name: str
    title: str
    description: str
    draw: Callable[[], go.Figure]
    table: Table | None = None
    wide: bool = False


@dataclass(frozen=True)
class Text:
    """A paragraph, by default without a ``tone``.

    Attributes:
        tone: ``lead``, ``good``, ``bad``, ``note``, ``warning``, ``code`` or empty.
    """

    kind: ClassVar[str] = "text"
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and values, shown as a row of boxes."""

    kind: ClassVar[str] = "facts"
    facts: Mapping[str, str]


Block: TypeAlias = Table | Figure | Chart | Text | Facts


def is_empty(block: Block) -> bool:
    """Return whether a block is an empty text, or a table without rows and caption."""
    if isinstance(block, Text):
        return not block.text
    return isinstance(block, Table) and not (block.rows or block.caption)


class Section(NamedTuple):
    """Blocks under a heading; ``name`` is the anchor."""

    name: str
    title: str
    blocks: Sequence[Block]


class StudyReport(NamedTuple):
    """A report; ``title`` is the study's name, ``subtitle`` names method and objective."""

    title: str
    state: str
    subtitle: str
    sections: Sequence[Section]

    @property
    def interactive(self) -> bool:
        """Return whether the HTML page needs plotly.js."""
        return any(block.kind == "chart" for section in self.sections for block in section.blocks)


def metric_cell(metric: str, value: float | None, error: float | None = None) -> Cell:
    """Return the cell of a metric in its unit, with its error if given."""
    known = value is not None and math.isfinite(value)
    return Cell(measured(metric, value, error), value if known else None)


def setting_cell(value: Any) -> Cell:
    """Return the cell of a setting; numbers sort numerically."""
    return Cell(setting(value), float(value) if is_number(value) else None)


def _cell(value: Cell | str | int) -> Cell:
    if isinstance(value, Cell):
        return value
    return Cell(value) if isinstance(value, str) else Cell(f"{value:,}", value)
