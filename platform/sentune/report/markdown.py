"""A report as Markdown: the same words and tables; a picture is its description and numbers."""

from __future__ import annotations

import re
from functools import singledispatch
from html import escape

from sentune.report.document import (
    Block,
    Code,
    Facts,
    Folded,
    Picture,
    Report,
    Section,
    Table,
    Text,
)

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


def to_markdown(report: Report) -> str:
    """The whole text. What Markdown or HTML would take for its own is escaped."""
    parts = [f"# {_plain(report.title)} ({_plain(report.state)})", _plain(report.subtitle)]
    for section in report.sections:
        parts += [*_section(section)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> list[str]:
    return [f"## {_plain(section.title)}", *(_markdown(block) for block in section.blocks)]


def _plain(text: str) -> str:
    """One line in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", escape(" ".join(text.split()), quote=False))


@singledispatch
def _markdown(block: Block) -> str:
    raise TypeError(f"no Markdown for {type(block).__name__}")


@_markdown.register
def _(block: Text) -> str:
    return f"> {_plain(block.text)}" if block.tone == "warning" else _plain(block.text)


@_markdown.register
def _(block: Facts) -> str:
    return "\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in block.facts)


@_markdown.register
def _(block: Code) -> str:
    return "\n".join("    " + line for line in block.text.splitlines())


@_markdown.register
def _(block: Folded) -> str:
    inner = "\n\n".join(_markdown(inside) for inside in block.blocks)
    return f"### {_plain(block.title)}\n\n{inner}"


@_markdown.register
def _(block: Picture) -> str:
    told = f"**{_plain(block.title)}** {_plain(block.description)}"
    if block.table is None:
        return f"{told} (drawn in report.html)"
    return f"{told}\n\n{_markdown(block.table)}"


@_markdown.register
def _(block: Table) -> str:
    heads = "| " + " | ".join(_plain(column.title) for column in block.columns) + " |"
    rule = "|" + "|".join("---:" if column.number else "---" for column in block.columns) + "|"
    lines = [
        "| " + " | ".join(_strong(_plain(c.text)) if c.strong else _plain(c.text) for c in r) + " |"
        for r in block.rows
    ]
    caption = [_plain(block.caption) + "\n"] if block.caption else []
    return "\n".join([*caption, heads, rule, *lines])


def _strong(text: str) -> str:
    return f"**{text}**" if text else ""
