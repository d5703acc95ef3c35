"""The page of all tables and figures of the papers at ``--quick`` size, on the data sets at hand.

    .venv/bin/python -m benchmarks.quick_tables DATA --encoder MODEL

Writes ``docs/quick-tables.md`` and ``docs/images/papers/*.svg``. DATA is a folder of data sets
under the names of their publishers; where a test split or a corpus is not there, ``INSTEAD`` names
another part of it, or another corpus, and the page says so. Studies go on where they stopped.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from sentune.papers.figures import make_plot, write_plot
from sentune.papers.make import TableMaker
from sentune.papers.page import comparison_table, differences
from sentune.papers.table import DataFolder, StudyChoices, every
from sentune.report.blocks import Section, StudyReport
from sentune.report.published import PublishedPlot
from sentune.report.render import to_markdown

DOCS = Path(__file__).parents[1] / "docs"
INSTEAD = {
    "SNLI test": "snli:{}/snli/snli_1.0_dev.jsonl.gz?rows=5000:",
    "SICK test": "sick:{}/sick/SICK.txt?split=TRIAL",
    "MNLI-mismatched": "multinli:{}/multinli/multinli_1.0_dev_matched_first5000.jsonl.gz",
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

Every table and figure that `sentune paper ls` names, made by one command:

    .venv/bin/python -m benchmarks.quick_tables DATA --encoder all-MiniLM-L6-v2

It says that each of them is made, and nothing about the papers: ours comes from all-MiniLM-L6-v2,
or from GloVe's 33,860 commonest words, after 128 to 1,024 examples, one seed, judged on about 100
rows, often of another split than the paper's. A cell is empty where a data set is not at hand, or
where a row is an encoder of the Hugging Face hub, which was not asked. How to make a table of the
paper's own size: [the papers' tables](papers.md).
"""


def main() -> None:
    """Make all of them in one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--storage", default="studies")
    given = parser.parse_args()
    words = given.data / "words"
    data = DataFolder(given.data, {n: spec.format(given.data) for n, spec in INSTEAD.items()})
    models = {
        "encoder": given.encoder,
        "vectors": f"glove:{words}/glove.840B.300d.33860.txt.gz",
        "frequencies": f"{words}/enwiki_vocab_min200.txt",
    }
    options = {"storage": given.storage, "seed": 0}
    choices = StudyChoices(data=data, quick=True, models=models, options=options)
    maker, parts, slowest = TableMaker(choices=choices, say=print), [HEAD], 0.0
    for name, paper, found in every():
        print(f"=== {name}", flush=True)
        began = time.monotonic()
        title = f"\n## {paper.paper}, {found.name}\n\n{found.caption}\n\n"
        if isinstance(found, PublishedPlot):
            lines, notes = made = make_plot(paper, found, choices, print)
            write_plot(name, paper, found, made, Path("papers"))
            drawing = Path("papers", f"{name.replace('/', '-')}.svg")
            image = DOCS / "images" / "papers" / drawing.name
            image.parent.mkdir(exist_ok=True)
            image.write_bytes(drawing.read_bytes())
            shown = ", ".join(line.name for line in lines)
            body = f"![{found.name} of {paper.paper}: {shown}](images/papers/{image.name})\n"
        else:
            table = maker.make(paper, found)
            blocks = [comparison_table(table)]
            section = Section("ours", "", blocks)
            page = StudyReport(title="", state="", subtitle="", sections=[section])
            body = to_markdown(page).partition("## ")[2].partition("\n")[2].strip() + "\n"
            notes = differences(table)
        seconds = time.monotonic() - began
        slowest = max(slowest, seconds)
        print(f"=== {name}: {seconds:.0f} s", flush=True)
        notes = [note for note in notes if not re.match(r"Empty cells: (model|--encoder):", note)]
        said = "".join(f"- {note}\n" for note in notes)
        parts.append(f"{title}{body}\n{said}")
    text = "".join(parts)
    for folder in (Path(given.encoder).parent, Path(given.storage).resolve(), given.data):
        text = text.replace(f"{folder}/", "")
    (DOCS / "quick-tables.md").write_text(text, encoding="utf-8")
    print(f"the longest took {slowest:.0f} s")


if __name__ == "__main__":
    main()
