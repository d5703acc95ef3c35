"""The model card: what a model is, how good, from what, and how to use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

_USE = """```python
from sentune import Embedder

embedder = Embedder.load("PATH TO THIS FOLDER")
{example}
```
"""

_EXAMPLES = {
    "intersent": 'embedder.decode(embedder.fuse("A dog ran.", "A dog slept."))',
    "invertible": 'embedder.similarity("A poodle runs.", "A dog runs.")',
}
_EXAMPLE = 'embedder.entails("A poodle runs.", "A dog runs.")'


class Named(Protocol):
    """A method by its names."""

    @property
    def name(self) -> str:
        """Key among the methods."""

    @property
    def title(self) -> str:
        """What it is called in a text."""


def render_card(
    method: Named,
    settings: Mapping[str, Any],
    readouts: Mapping[str, Any],
    sections: Mapping[str, Mapping[str, Any]],
) -> str:
    """Markdown with one table for each section.

    Args:
        sections: title -> name -> value; nested values become ``name.inner``.
    """
    library = "sentence-transformers" if method.name.startswith("simcse") else "sentune"
    head = f"---\nlibrary_name: {library}\ntags:\n- sentence-embeddings\n- {method.name}\n---\n"
    title = f"# {method.title} sentence embeddings\n\nTrained with sentune.\n"
    use = _USE.format(example=_EXAMPLES.get(method.name, _EXAMPLE))
    tables = {**sections, "Readouts": readouts, "Settings": settings}
    parts = [_table(name, rows) for name, rows in tables.items() if rows]
    return "\n".join([head, title, "## Use\n", use, *parts])


def _table(title: str, rows: Mapping[str, Any]) -> str:
    lines = [f"| {name} | {_cell(value)} |" for name, value in _flatten(rows)]
    return "\n".join([f"## {title}\n", "| | |", "|---|---|", *lines, ""])


def _flatten(rows: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in rows.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
