"""Which commands of the pages are run on small files, as what, and which are not run."""

from __future__ import annotations

import re
import shlex

from tests.page_blocks import FOREIGN, Call

GUMBEL, INTERSENT = "studies/gumbel/model", "studies/intersent-quick/model"
TINY = "builtin:tiny?layers=1&width=16&heads=2&inner=32"

NOT_RUN = {
    rf"(?!ray ).*s3://|{'|'.join(sorted({name.split('/')[-1] for name in FOREIGN}))}\b": (
        "a cloud, a server, a registry or a cluster of machines: see page_blocks.FOREIGN"
    ),
    r"make ": "targets of the Makefile: the set-up, the tests, the benchmarks, the screenshots",
    r"python -m pytest ": "the tests themselves, in tiers of their own",
    r"python (-m )?benchmarks": "minutes to hours each, with peers to compare to: make bench",
    r"sentune cluster check": "a cluster: tests/ops/test_cluster_check_ray.py",
    r"sentune serve": "it serves until it is ended: tests/test_serving.py",
    r"sentune push (?!.*--dry-run)": "the Hub: tests/cli/test_push.py has a client of it",
    r"sentune evaluate hf:princeton-nlp": "the Hub: tests/embedder/test_pretrained.py",
    r"sentune paper run (?!laes.*--data)": "many studies: tests/papers/test_paper_run.py has two",
}
"""Beginning of a command -> what it needs that is not here, or where else it runs."""

IN_PLACE: list[tuple[str, str, str]] = [
    (r"", r"(?<= )\.\.\.$", ""),
    (r"", r"\b(sentence-transformers/|encoders/)?all-MiniLM-L6-v2\b", TINY),
    (r"", r"\b(bert-base-uncased|roberta-base|facebook/bart-base)\b", TINY),
    (r"", r"(?<=--encoder )MODEL", TINY),
    (r"", r"builtin:tiny\?layers=\d&width=128", TINY),
    (r"", r"--gpus-per-worker 1", ""),
    (r"", r"\bbatch_size=\d{3}\b", "batch_size=32"),
    (r"sentune (fuse|difference|compress|compose)|.*generation=wikisplit", r"\bMODEL\b", INTERSENT),
    (r"", r"\bMODEL\b", GUMBEL),
    (r"", r"\bNAME\b", "gumbel"),
    (r"", r"\bOTHER\b", "NEW"),
]
"""Beginning of the commands, text in them, what a small machine without a network has for it."""

COUNTS = re.compile(r"\b(rows=|premises=|references=|count )[-\d:,]+")
"""Numbers of rows, which are divided by 50: the files of the pages are as much larger."""

SMALL = {
    r"python jobs/tune_(sif|laes)": "--trials 1 --limit 80",
    r"python jobs/|sentune tune": "--trials 1 --finalists 0 --limit 96 --max-examples 96",
    r"sentune train --method laes": "--limit 80",
    r"sentune train": "--limit 96 --max-examples 96",
    r"sentune linear": "--limit 96 --max-examples 96",
}
"""Beginning of a command, the first that fits -> options that make it small."""

JUDGED = {r".*intersent": "operations", r".*invertible": "similarity", r".*": "nli"}
"""Beginning of a job without corpora, the first that fits -> the built-in one that judges it."""


def not_run(call: Call) -> str | None:
    """Return the pattern of ``NOT_RUN`` that a command fits; None where it is run."""
    line = " ".join(call.words)
    return next((pattern for pattern in NOT_RUN if re.match(pattern, line)), None)


def made_small(call: Call, number: int) -> list[str]:
    """Return a command as it is run; a job that names no study is given ``small-NUMBER``."""
    line = shlex.join(call.words)
    for fits, text, stand_in in IN_PLACE:
        if re.match(fits, line):
            line = re.sub(text, stand_in, line)
    line = COUNTS.sub(lambda found: re.sub(r"\d+", _fiftieth, found[0]), line)
    words = shlex.split(line)
    if "--help" not in words:
        added = next((more for start, more in SMALL.items() if re.match(start, line)), "")
        words += added.split()
        if "--max-examples" in added and "batch_size" not in line and "linear" not in line:
            words += ["--set", "batch_size=32"]
        if "--trials" in added and "--study" not in line:
            words.append(f"--study=small-{number}")
        if "--finalists" in added and not re.search(r"--(corpus|dev)\b", line):
            corpus = next(name for start, name in JUDGED.items() if re.match(start, line))
            words += [f"--{s}=builtin:{corpus}?split={s}&size=40" for s in ("dev", "test")]
    return words


def _fiftieth(number: re.Match[str]) -> str:
    return str(int(number[0]) // 50)
