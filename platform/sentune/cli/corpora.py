"""``sentune corpora prepare`` and ``sentune corpora show``."""

from __future__ import annotations

from typing import Annotated

from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from sentune.cli.options import Group, Limit
from sentune.corpora.formats import FORMATS, kinds_of, read
from sentune.corpora.formats.spec import BAD_ROWS
from sentune.corpora.schema import Kind
from sentune.formatting import counted
from sentune.terminal import Terminal, say

app = Group()

BAD_ROWS_SHOWN = 20

SpecArgument = Annotated[
    str,
    Argument(
        metavar="FORMAT:PATH[?key=value&...]",
        help=f"Format and path. Formats: {', '.join(FORMATS)}. "
        "All of them accept rows=A:B and premises=A:B.",
    ),
]
KindOption = Annotated[
    Kind | None, Option(help="Kind of rows to read; default: the first kind of the format.")
]
BadRowsOption = Annotated[
    str, Option(metavar="N|P%", help="Skip up to N bad rows, or P% of the rows; more are an error.")
]


@app.callback()
def corpora() -> None:
    """Print corpora, or convert them to Parquet shards."""


@app.command()
def prepare(
    spec: SpecArgument,
    out: Annotated[str, Argument(help="A folder, or a URI such as s3://bucket/folder.")],
    kind: KindOption = None,
    limit: Limit = None,
    shard_rows: Annotated[int, Option(min=1, help="Rows per shard.")] = 65_536,
    bad_rows: BadRowsOption = BAD_ROWS,
) -> None:
    """Write a corpus as Parquet shards, with its fingerprint, counts and bad rows.

    Other commands read it as parquet:OUT.
    """
    from sentune.corpora.prepare import QUARANTINE, prepare

    manifest = prepare(
        spec,
        out,
        kind=kind or kinds_of(spec)[0],
        limit=limit,
        shard_rows=shard_rows,
        bad_rows=bad_rows,
    )
    say(f"{out}: {manifest['kind']} in {counted(len(manifest['shards']), 'shard')}")
    say(f"fingerprint {manifest['fingerprint']}")
    say(_counted(manifest["counts"]))
    if manifest["quarantine"]["rows"]:
        say(f"bad rows, with file, line and reason: {out.rstrip('/')}/{QUARANTINE}")


@app.command()
def show(
    spec: SpecArgument,
    kind: KindOption = None,
    rows: Annotated[int, Option(min=0, help="Number of rows to print.")] = 10,
    bad_rows: BadRowsOption = BAD_ROWS,
) -> None:
    """Print the first rows of a corpus, its counts and its bad rows."""
    corpus = read(spec, kind or kinds_of(spec)[0], bad_rows=bad_rows)
    table = Table(*corpus.table.column_names, show_lines=True)
    for row in corpus.table.slice(0, rows).to_pylist():
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    Terminal().print(table)
    say(f"{corpus.kind.value}, fingerprint {corpus.fingerprint}")
    say(_counted(corpus.counts))
    for bad in corpus.quarantine[:BAD_ROWS_SHOWN]:
        say(f"bad row: {bad}")
    if (more := len(corpus.quarantine) - BAD_ROWS_SHOWN) > 0:
        say(f"and {more:,} more bad rows; `sentune corpora prepare` writes all of them")


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
