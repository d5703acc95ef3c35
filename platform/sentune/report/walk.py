"""The walk over a report's blocks, the same for every language it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sentune.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Facts,
    Folded,
    Picture,
    Table,
    Text,
)


class Renderer(Protocol):
    """How one language writes each kind of block; what lies inside one comes written already."""

    def text(self, block: Text) -> str: ...

    def facts(self, block: Facts) -> str: ...

    def code(self, block: Code) -> str: ...

    def folded(self, block: Folded, inner: Sequence[str]) -> str: ...

    def picture(self, block: Picture, table: str | None) -> str: ...

    def head(self, column: Column) -> str: ...

    def cell(self, cell: Cell, column: Column) -> str: ...

    def table(self, block: Table, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str: ...


def written(block: Block, by: Renderer) -> str:
    """A block and all that it holds.

    Raises:
        ValueError: a table's row has more or fewer cells than the table has columns.
    """
    match block:
        case Text():
            return by.text(block)
        case Facts():
            return by.facts(block)
        case Code():
            return by.code(block)
        case Folded():
            return by.folded(block, [written(inside, by) for inside in block.blocks])
        case Picture():
            table = written(block.table, by) if block.table is not None else None
            return by.picture(block, table)
        case Table():
            heads = [by.head(column) for column in block.columns]
            return by.table(block, heads, [_row(line, block.columns, by) for line in block.rows])


def _row(line: Sequence[Cell], columns: Sequence[Column], by: Renderer) -> list[str]:
    return [by.cell(cell, column) for cell, column in zip(line, columns, strict=True)]
