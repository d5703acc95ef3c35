"""A report as one HTML page that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escape_html

from sentune.credentials import without_credentials
from sentune.report.document import (
    Block,
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
from sentune.report.look import SCRIPT, STYLE
from sentune.report.walk import written

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def escape(text: str) -> str:
    """Text in which nothing is markup and nothing a credential."""
    return escape_html(without_credentials(text))


def to_html(report: Report) -> str:
    """The whole page. Every text is escaped; pictures are SVG of this package's own making."""
    title = escape(report.title)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{title} · sentune</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<header>",
            f'<h1>{title} <span class="state {escape(report.state)}">{escape(report.state)}</span>'
            "</h1>",
            f"<p>{escape(report.subtitle)}</p>",
            _contents(report),
            "</header>",
            "<main>",
            *(_section(section) for section in report.sections),
            "</main>",
            f"<script>{SCRIPT}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _contents(report: Report) -> str:
    links = "".join(
        f'<a href="#{escape(section.name)}">{escape(section.title)}</a>'
        for section in report.sections[1:]
    )
    return f'<nav aria-label="Sections">{links}</nav>'


def _section(section: Section) -> str:
    blocks = "\n".join(_blocks(section))
    title = escape(section.title)
    return f'<section id="{escape(section.name)}">\n<h2>{title}</h2>\n{blocks}\n</section>'


def _blocks(section: Section) -> list[str]:
    """The blocks; pictures and small tables that follow one another stand in one grid."""
    made: list[str] = []
    beside: list[str] = []
    for block in section.blocks:
        if _stands_beside(block):
            beside.append(written(block, _Html()))
            continue
        made += _grid(beside)
        beside = []
        made.append(written(block, _Html()))
    return made + _grid(beside)


def _stands_beside(block: Block) -> bool:
    if isinstance(block, Picture):
        return not block.wide
    return isinstance(block, Table) and block.beside


def _grid(pictures: list[str]) -> list[str]:
    return [f'<div class="grid">{"".join(pictures)}</div>'] if pictures else []


class _Html:
    """See ``sentune.report.walk.Renderer``."""

    def text(self, block: Text) -> str:
        tone = f' class="{escape(block.tone)}"' if block.tone else ""
        return f"<p{tone}>{escape(block.text)}</p>"

    def facts(self, block: Facts) -> str:
        boxes = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
            for name, value in block.facts
        )
        return f'<dl class="facts">{boxes}</dl>'

    def code(self, block: Code) -> str:
        return f"<pre><code>{escape(block.text)}</code></pre>"

    def folded(self, block: Folded, inner: Sequence[str]) -> str:
        return _details(block.title, "".join(inner))

    def picture(self, block: Picture, table: str | None) -> str:
        wide = ' class="wide"' if block.wide else ""
        numbers = _details("as a table", table) if table is not None else ""
        return (
            f"<figure{wide}><figcaption><b>{escape(block.title)}</b> {escape(block.description)}"
            f'</figcaption><div class="drawing">{block.svg}</div>{numbers}</figure>'
        )

    def head(self, column: Column) -> str:
        return f'<th scope="col"{_class(column)}>{escape(column.title)}</th>'

    def cell(self, cell: Cell, column: Column) -> str:
        key = f' data-key="{cell.key!r}"' if cell.key is not None else ""
        text = escape(cell.text)
        return f"<td{_class(column)}{key}>{f'<b>{text}</b>' if cell.strong else text}</td>"

    def table(self, block: Table, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
        kind = ' class="sortable"' if block.sortable else ""
        caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
        box = "scroll all" if block.sortable else "scroll"
        return (
            f'<div class="{box}" tabindex="0"><table{kind}>{caption}'
            f"<thead><tr>{''.join(heads)}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
        )


def _details(summary: str, inner: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def _class(column: Column) -> str:
    words = [*(["number"] if column.number else []), *(["wide"] if column.wide else [])]
    return f' class="{" ".join(words)}"' if words else ""
