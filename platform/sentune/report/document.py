"""A report before it is HTML or Markdown: sections of text, tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What stands in a table; ``key`` is what a column is sorted by, the text where it is None."""

    text: str
    key: float | None = None
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column's head. Numbers stand to the right; ``wide`` ones may wrap."""

    title: str
    number: bool = False
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under heads.

    Attributes:
        sortable: a reader may sort it by any column.
        beside: it is small and stands beside pictures.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False
    caption: str = ""
    beside: bool = False


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing.

    Attributes:
        title: what it shows.
        description: the same in a sentence or two, for those who do not see it.
        svg: an ``<svg>`` element without anything from outside.
        table: the numbers behind it.
        wide: takes the whole width of the page.
    """

    title: str
    description: str
    svg: str
    table: Table | None = None
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class Text:
    """A paragraph; ``tone`` is ``lead``, ``note``, ``warning`` or empty."""

    text: str
    tone: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names with their values, in a row of boxes."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Code:
    """Something to be read letter by letter: a command."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Folded:
    """Blocks that are opened on demand."""

    title: str
    blocks: Sequence[Table | Text | Code]


Block: TypeAlias = Table | Picture | Text | Facts | Code | Folded


@dataclass(frozen=True, kw_only=True)
class Section:
    """Blocks under a heading; ``name`` is its anchor."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole report.

    Attributes:
        title: name of the study.
        state: how the study stands.
        subtitle: what kind of study it is.
        sections: in order; those with nothing to say are left out.
    """

    title: str
    state: str
    subtitle: str
    sections: Sequence[Section] = field(default_factory=tuple)


def row(*texts: str) -> list[Cell]:
    """Cells of plain texts."""
    return [Cell(text=text) for text in texts]


def columns(*titles: str, numbers: Sequence[str] = (), wide: Sequence[str] = ()) -> list[Column]:
    """Heads, those named in ``numbers`` to the right and those in ``wide`` with room."""
    return [Column(title=t, number=t in numbers, wide=t in wide) for t in titles]
