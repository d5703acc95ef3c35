"""What a report consists of: sections of texts, facts, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.axes import Axes


class Cell(NamedTuple):
    """A cell; columns are sorted by ``key``, by the text where it is None."""

    text: str
    key: float | None = None
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under heads.

    Attributes:
        numbers: heads of columns that are right-aligned.
        wide: heads of columns that wrap.
        sortable: a reader may sort it.
        caption: below it.
        beside: it stands beside figures.
        folded: heading that unfolds it; empty: it is open.
    """

    kind: ClassVar[str] = "table"
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    numbers: Collection[str] = ()
    wide: Collection[str] = ()
    sortable: bool = False
    caption: str = ""
    beside: bool = False
    folded: str = ""

    @property
    def lines(self) -> list[list[tuple[Cell, str]]]:
        """Each row's cells with the heads of their columns.

        Raises:
            ValueError: a row has more or fewer cells than the table has columns.
        """
        cells = [[c if isinstance(c, Cell) else Cell(c) for c in row] for row in self.rows]
        return [list(zip(row, self.heads, strict=True)) for row in cells]


@dataclass(frozen=True)
class Figure:
    """What a figure shows.

    Attributes:
        name: letters, digits and _, one of a kind in a report: its file's name.
        title, description: in words, for those who do not see it.
        draw: draws it.
        width, height: inches.
        table: the numbers behind it.
        wide: takes the whole width of a page.
        framed: whether it has a frame, ticks and a grid.
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
    """A figure that plotly draws in the reader's browser; the table stands for it elsewhere.

    Attributes:
        name: letters, digits and _, one of a kind in a report.
        title, description: in words, for those who do not see it.
        draw: makes it.
        table: the numbers behind it.
        wide: takes the whole width of a page.
    """

    kind: ClassVar[str] = "chart"
    name: str
    title: str
    description: str
    draw: Callable[[], go.Figure]
    table: Table
    wide: bool = False


@dataclass(frozen=True)
class Text:
    """A paragraph.

    ``tone`` is ``lead``, ``good``, ``bad``, ``note``, ``warning``, ``code`` (verbatim) or empty.
    """

    kind: ClassVar[str] = "text"
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Facts:
    """Names with their values, in a row of boxes."""

    kind: ClassVar[str] = "facts"
    facts: Mapping[str, str]


Block: TypeAlias = Table | Figure | Chart | Text | Facts


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
        """Whether a page of it needs plotly.js."""
        return any(block.kind == "chart" for section in self.sections for block in section.blocks)
