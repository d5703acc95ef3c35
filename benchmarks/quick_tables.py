"""The page of all tables and figures of the papers at ``--quick`` size, on the data sets at hand.

    .venv/bin/python -m benchmarks.quick_tables DATA --encoder MODEL

Makes those that ``papers/`` lacks, and of all of them ``docs/quick-tables.md`` and
``docs/images/papers/*.svg``. DATA is a folder of data sets under the names of their publishers;
where a test split or a corpus is not there, ``INSTEAD`` names another part of it, or another
corpus, and the page says so. Each has a storage folder of its own, so that its time, which the page
names, is that of a user who makes it alone.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

from sentune.papers.figures import make_plot, write_plot
from sentune.papers.make import TableMaker
from sentune.papers.page import write
from sentune.papers.table import DataFolder, StudyChoices, every
from sentune.report.published import Paper, PublishedPlot, PublishedTable
from sentune.study.planning.connect import connected

HUB = r"Empty cells: (model|\\?-\\?-encoder):"
DOCS = Path(__file__).parents[1] / "docs"
INSTEAD = {
    "SNLI test": "snli:{}/snli/snli_1.0_dev.jsonl.gz?rows=5000:",
    "SICK test": "sick:{}/sick/SICK.txt?split=TRIAL",
    "MNLI-mismatched": "multinli:{}/multinli/multinli_1.0_dev_matched_first5000.jsonl.gz",
    "MNLI-mismatched, annotated": "snli:{}/snli/snli_1.0_train_first100k.jsonl.gz?votes=2",
    "AmbiEnt": "ambient:{}/ambient/dev.jsonl",
    "WikiSplit train": "wikisplit:{}/wikisplit/tune.tsv",
    "WikiSplit test": "wikisplit:{}/wikisplit/validation.tsv",
    "Google compression train": "compression:{}/sentence-compression/pairs.tsv?rows=0:8000",
    "Google compression test": "compression:{}/sentence-compression/pairs.tsv?rows=8000:",
    "STS Benchmark test": "stsb:{}/stsbenchmark/sts-dev.csv",
    "BookCorpus": "books:{}/gutenberg",
    "SICK relatedness": "senteval:{}/sick/SICK.txt?task=sick-r",
    "SICK entailment": "senteval:{}/sick/SICK.txt?task=sick-e",
    "STS Benchmark, supervised": "senteval:{}/stsbenchmark?task=stsb-supervised",
}
HEAD = """# The papers' tables at quick size

This page shows that `sentune paper` can make every table and figure that `sentune paper ls` lists.
They were made by one command:

    .venv/bin/python -m benchmarks.quick_tables DATA --encoder all-MiniLM-L6-v2

The figures say nothing about the papers. They come from all-MiniLM-L6-v2, or from GloVe's 33,860
commonest words, after 128 to 1,024 examples with one seed, and are evaluated on about 100 rows,
often of another split than the paper's. A cell is empty if a data set was not available, or if the
row is an encoder of the Hugging Face Hub, which was not accessed. [The papers' tables](papers.md)
explains how to make tables of the papers' own size.
"""


def main() -> None:
    """Make all of them in one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--storage", default="studies")
    parser.add_argument("--only", nargs="*", help="tables to make; the page has all that are made")
    given = parser.parse_args()
    words = given.data / "words"
    data = DataFolder(given.data, {n: spec.format(given.data) for n, spec in INSTEAD.items()})
    models = {
        "encoder": given.encoder,
        "vectors": f"glove:{words}/glove.840B.300d.33860.txt.gz",
        "frequencies": f"{words}/enwiki_vocab_min200.txt",
    }
    out, times = Path("papers"), Path("papers/seconds.json")
    seconds = json.loads(times.read_text()) if times.exists() else {}
    for name, paper, found in every():
        stem = name.replace("/", "-")
        if (given.only and name not in given.only) or any(out.glob(f"{stem}.*")):
            continue
        options = {"storage": f"{given.storage}/{stem}", "seed": 0}
        choices = StudyChoices(data=data, quick=True, models=models, options=options)
        began = time.monotonic()
        with connected():
            if isinstance(found, PublishedPlot):
                write_plot(name, paper, found, make_plot(paper, found, choices, print), out)
            else:
                write(name, TableMaker(choices=choices, say=print).make(paper, found), out)
        seconds[name] = round(time.monotonic() - began)
        times.write_text(json.dumps(seconds))
        print(f"=== {name}: {seconds[name]} s", flush=True)
    text = HEAD + "".join(_section(*each, out, seconds[each[0]]) for each in every())
    for folder in (Path(given.encoder).parent, Path(given.storage).resolve(), given.data):
        text = text.replace(f"{folder}/", "")
    # rows that were handed over as a table
    text = re.sub(r"parquet:\S+/sentune-data-\S+: ", "", text)
    (DOCS / "quick-tables.md").write_text(text, encoding="utf-8")


def _section(
    name: str, paper: Paper, found: PublishedTable | PublishedPlot, out: Path, took: int
) -> str:
    """Return the part of the page that a table has, or a figure, whose drawing goes to the docs."""
    wall = f"Made in {took} s.\n"
    made = out / name.replace("/", "-")
    title = f"\n## {paper.paper}, {found.name}\n\n"
    if isinstance(found, PublishedPlot):
        image = DOCS / "images" / "papers" / f"{made.name}.svg"
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(made.with_suffix(".svg").read_bytes())
        shown = f"![{found.name} of {paper.paper}](images/papers/{image.name})"
        return f"{title}{found.caption}\n\n{shown}\n\n{wall}"
    page = made.with_suffix(".md").read_text(encoding="utf-8")
    ours = page.split("\n## ")[1].partition("\n")[2]  # the first section
    head, table, notes = ours.strip().rpartition("|\n")
    lines = (line for line in notes.split("\n\n") if line and not re.match(HUB, line))
    said = "".join(f"- {line.strip()}\n" for line in lines)
    return f"{title}{head}{table}\n{said}\n{wall}"


if __name__ == "__main__":
    main()
