"""Parts of a report: sections of texts, facts, tables and figures."""

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
"""Letters of a text above which its column wraps."""


class Cell(NamedTuple):
    """A cell; that of a number has the ``key`` by which its column is sorted."""

    text: str
    key: float | None = None
    strong: bool = False


Row: TypeAlias = Sequence[Cell | str | int]
"""Cells of a row; whole numbers stand for themselves."""


class Column(NamedTuple):
    """A column; its ``kind`` is ``number`` (right-aligned), ``wide`` (it wraps) or empty."""

    head: str
    kind: str
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under heads, with a caption.

    A reader may sort a ``sortable`` one; one ``beside`` stands beside figures; the heading
    ``folded`` unfolds it, without one it is open.
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
        """The columns, without those that are empty in every row.

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
        """Each row's cells with the kinds of their columns."""
        columns = ([(cell, kind) for cell in cells] for _, kind, cells in self.columns)
        return [*zip(*columns, strict=True)]


@dataclass(frozen=True)
class Figure:
    """A figure that matplotlib draws.

    Attributes:
        name: letters, digits and _, one of a kind in a report: its file's name.
        title, description: in words, for those who do not see it.
        width, height: inches.
        table: the numbers behind it.
        wide: takes the whole width of a page.
        framed: has a frame, ticks and a grid.
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
    """A figure that plotly draws in the reader's browser; a table stands for it elsewhere.

    Its other fields are those of ``Figure``.
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
    """A paragraph; its tone: ``lead``, ``good``, ``bad``, ``note``, ``warning``, ``code``, none."""

    kind: ClassVar[str] = "text"
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Facts:
    """Names with their values, in a row of boxes."""

    kind: ClassVar[str] = "facts"
    facts: Mapping[str, str]


Block: TypeAlias = Table | Figure | Chart | Text | Facts


def is_empty(block: Block | None) -> bool:
    """Return whether a block shows nothing: a text or a table without content, or none."""
    match block:
        case Text():
            return not block.text
        case Table():
            return not (block.rows or block.caption)
    return block is None


class Section(NamedTuple):
    """Blocks under a heading; ``name`` is its anchor."""

    name: str
    title: str
    blocks: Sequence[Block]


class StudyReport(NamedTuple):
    """A report; ``title`` is the study's name, ``subtitle`` its method and objective."""

    title: str
    state: str
    subtitle: str
    sections: Sequence[Section]

    @property
    def interactive(self) -> bool:
        """Return whether a page of it needs plotly.js."""
        return any(block.kind == "chart" for section in self.sections for block in section.blocks)


def metric_cell(metric: str, value: float | None, error: float | None = None) -> Cell:
    """Return a metric in its unit, with its error where one is given."""
    known = value is not None and math.isfinite(value)
    return Cell(measured(metric, value, error), value if known else None)


def setting_cell(value: Any) -> Cell:
    """Return a setting; columns of numbers are sorted as such."""
    return Cell(setting(value), float(value) if is_number(value) else None)


def _cell(value: Cell | str | int) -> Cell:
    if isinstance(value, Cell):
        return value
    return Cell(value) if isinstance(value, str) else Cell(f"{value:,}", value)
