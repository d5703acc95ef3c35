"""``sentune paper``: reproduce the tables and figures of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from sentune.cli.options import Group, key_and_value
from sentune.terminal import plain_table, print_line, say, screen

app = Group()

Data = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="Folder of the data sets, under their publishers' file names."),
]
Instead = Annotated[
    list[str] | None,
    Option(metavar="NAME=FORMAT:PATH", help="Corpus to use for a paper's data set. Repeatable."),
]


@app.callback()
def paper() -> None:
    """Reproduce the tables and figures of the papers, with our results beside the paper's."""


@app.command("ls")
def ls(data: Data = None, instead: Instead = None) -> None:
    """List all tables and figures; with --data, also the data sets that are missing."""
    from sentune.papers.table import DataFolder, every, missing_data
    from sentune.report.published import PublishedTable

    folder = DataFolder(data, _instead(instead))
    columns = "table", "rows", "shows", *(["missing"] if data else [])
    table = plain_table(*columns, header_style="dim")
    lacking: dict[str, str] = {}
    for name, of, found in every():
        missing = missing_data(found, of, folder)
        lacking |= missing
        rows = str(len(found.rows)) if isinstance(found, PublishedTable) else ""
        cells = [name, rows, found.caption]
        table.add_row(*cells, *([", ".join(missing)] if data else []))
    screen().print(table)
    if data:
        for name, source in lacking.items():
            say(f"{name}: {source}")


@app.command("rows")
def rows() -> None:
    """Print, as Markdown, which rows of each table can be run and which are only published."""
    from sentune.papers.page import rows_by_state

    typer.echo(rows_by_state())


@app.command("run")
def run(
    context: typer.Context,
    name: Annotated[str, Argument(metavar="TABLE", help="Name, as listed by `sentune paper ls`.")],
    data: Data = None,
    instead: Instead = None,
    quick: Annotated[
        bool, Option("--quick", help="Few examples and rows: minutes on a small machine.")
    ] = False,
    encoder: Annotated[str | None, Option(help="Encoder, for methods that have one.")] = None,
    decoder: Annotated[str | None, Option(help="Decoder, for methods that have one.")] = None,
    vectors: Annotated[
        str | None, Option(help="Word vectors, glove:FILE or fasttext:FILE.")
    ] = None,
    frequencies: Annotated[
        str | None, Option(help="Word counts: a FILE of lines 'word count', or wordfreq:en.")
    ] = None,
    storage: Annotated[
        str | None,
        Option(
            metavar="URI",
            help="Folder or URI of the studies (default: $SENTUNE_STORAGE, else studies).",
        ),
    ] = None,
    gpus_per_worker: Annotated[float, Option(help="GPUs per worker of each study.")] = 0.0,
    seed: Annotated[int, Option(help="Seed of each study.")] = 0,
    out: Annotated[Path, Option(metavar="DIR", help="Folder to write the pages to.")] = Path(
        "papers"
    ),
) -> None:
    """Run or resume the studies of a table or figure, and compare them to the paper."""
    from sentune.cli.report import screen_table
    from sentune.papers.make import TableMaker
    from sentune.papers.page import comparison_table, differences, write
    from sentune.papers.table import DataFolder, StudyChoices, find_published
    from sentune.report.published import PublishedPlot
    from sentune.study.planning.connect import connected

    from_paper, published = find_published(name)
    models = {n: context.params[n] for n in ("encoder", "decoder", "vectors", "frequencies")}
    options: dict[str, Any] = {"seed": seed, "gpus_per_worker": gpus_per_worker}
    if storage is not None:
        options["storage"] = storage
    choices = StudyChoices(
        data=DataFolder(data, _instead(instead)),
        quick=quick,
        models={option: value for option, value in models.items() if value is not None},
        options=options,
    )
    if isinstance(published, PublishedPlot):
        from sentune.papers.figures import make_plot, write_plot

        with connected():
            lines = make_plot(from_paper, published, choices, say)
        for difference in lines[1]:
            print_line(screen(), difference)
        for path in write_plot(name, from_paper, published, lines, out):
            say(path)
        return
    with connected():  # one cluster for all of its studies
        made = TableMaker(choices=choices, say=say).make(from_paper, published)
    console, title = screen(), f"{from_paper.paper}, {published.name}, in percent"
    console.print(screen_table(comparison_table(made), title=title))
    for difference in differences(made):
        print_line(console, difference)
    for path in write(name, made, out):
        say(path)


def _instead(items: list[str] | None) -> dict[str, str]:
    fix = "give NAME=FORMAT:PATH, such as 'SNLI test=snli:test.jsonl'"
    return dict(key_and_value("--instead", item, fix) for item in items or [])
