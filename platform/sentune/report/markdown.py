"""A report as Markdown: the same words and tables; a picture is its description and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from sentune.credentials import without_credentials
from sentune.report.document import (
    Cell,
    Code,
    Column,
    Facts,
    Folded,
    Picture,
    Report,
    Section,
    Table,
    Text,
)
from sentune.report.walk import written

_APART = "<!-- -->"
"""Ends a list: what is indented behind one would be text of its last item, and its HTML HTML."""

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def to_markdown(report: Report) -> str:
    """The whole text. What Markdown or HTML would take for its own is escaped."""
    parts = [f"# {_plain(report.title)} ({_plain(report.state)})", _plain(report.subtitle)]
    for section in report.sections:
        parts += [*_section(section)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> list[str]:
    blocks = (written(block, _Markdown()) for block in section.blocks)
    return [f"## {_plain(section.title)}", *blocks]


def _plain(text: str) -> str:
    """One line in which nothing is markup and nothing a credential."""
    line = " ".join(without_credentials(text).split())
    return _SPECIAL.sub(r"\\\1", escape(line, quote=False))


class _Markdown:
    """See ``sentune.report.walk.Renderer``."""

    def text(self, block: Text) -> str:
        return f"> {_plain(block.text)}" if block.tone == "warning" else _plain(block.text)

    def facts(self, block: Facts) -> str:
        return "\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in block.facts)

    def code(self, block: Code) -> str:
        text = without_credentials(block.text)
        return "\n".join([_APART, "", *("    " + line for line in text.splitlines())])

    def folded(self, block: Folded, inner: Sequence[str]) -> str:
        return "\n\n".join([f"### {_plain(block.title)}", *inner])

    def picture(self, block: Picture, table: str | None) -> str:
        told = f"**{_plain(block.title)}** {_plain(block.description)}"
        return f"{told} (drawn in report.html)" if table is None else f"{told}\n\n{table}"

    def head(self, column: Column) -> str:
        return _plain(column.title)

    def cell(self, cell: Cell, column: Column) -> str:
        del column
        text = _plain(cell.text)
        return f"**{text}**" if cell.strong and text else text

    def table(self, block: Table, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        rule = "|" + "|".join("---:" if column.number else "---" for column in block.columns) + "|"
        caption = [_plain(block.caption) + "\n"] if block.caption else []
        return "\n".join([*caption, _line(heads), rule, *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
