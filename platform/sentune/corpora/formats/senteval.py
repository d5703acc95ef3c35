"""SentEval's transfer tasks (Conneau & Kiela 2018): which files each has and where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import fsspec

from sentune.corpora.formats import senteval_pairs, senteval_sentences
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import SPLITS, Kind
from sentune.errors import CorpusError

Files = Mapping[str, str]
"""Split, or label where a task has no splits, -> file."""

_WHOLE = "whole"
"""The one file of a layout that keeps all splits together."""


@dataclass(frozen=True, kw_only=True)
class _Task:
    """A task.

    Attributes:
        kind: what it is read as.
        folder: where SentEval's own layout has it, below ``downstream``.
        layouts: its files, as SentEval names them and as others do; the first that is there is
            read.
        read: reads the files of a layout.
    """

    kind: Kind = Kind.CLASSIFIED
    folder: str
    layouts: tuple[Files, ...]
    read: Callable[[Files, Log], Iterator[Row]]


def _splits(train: str, dev: str, test: str) -> Files:
    return {"train": train, "dev": dev, "test": test}


_SICK = (
    {_WHOLE: "SICK.txt"},
    _splits("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"),
)

TASKS: dict[str, _Task] = {
    "mr": _Task(
        folder="MR",
        layouts=({"positive": "rt-polarity.pos", "negative": "rt-polarity.neg"},),
        read=senteval_sentences.labelled,
    ),
    "cr": _Task(
        folder="CR",
        layouts=({"positive": "custrev.pos", "negative": "custrev.neg"},),
        read=senteval_sentences.labelled,
    ),
    "subj": _Task(
        folder="SUBJ",
        layouts=({"objective": "subj.objective", "subjective": "subj.subjective"},),
        read=senteval_sentences.labelled,
    ),
    "mpqa": _Task(
        folder="MPQA",
        layouts=({"positive": "mpqa.pos", "negative": "mpqa.neg"},),
        read=senteval_sentences.labelled,
    ),
    "sst2": _Task(
        folder="SST/binary",
        layouts=(
            _splits("sentiment-train", "sentiment-dev", "sentiment-test"),
            _splits("stsa.binary.train", "stsa.binary.dev", "stsa.binary.test"),
        ),
        read=senteval_sentences.sentiment,
    ),
    "trec": _Task(
        folder="TREC",
        layouts=(
            {"train": "train_5500.label", "test": "TREC_10.label"},
            {"train": "TREC.train", "test": "TREC.test"},
        ),
        read=senteval_sentences.questions,
    ),
    "mrpc": _Task(
        folder="MRPC",
        layouts=({"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},),
        read=senteval_pairs.paraphrases,
    ),
    "sick-e": _Task(folder="SICK", layouts=_SICK, read=senteval_pairs.sick_labels),
    "sick-r": _Task(
        kind=Kind.RELATED, folder="SICK", layouts=_SICK, read=senteval_pairs.sick_scores
    ),
    "stsb-supervised": _Task(
        kind=Kind.RELATED,
        folder="STS/STSBenchmark",
        layouts=(_splits("sts-train.csv", "sts-dev.csv", "sts-test.csv"),),
        read=senteval_pairs.benchmark,
    ),
}

OPTIONS = {"task": f"one of {', '.join(TASKS)}"}


def readers(spec: Spec) -> Mapping[Kind, Callable[[Spec, Log], Iterator[Row]]]:
    """Return the one kind that the task is read as.

    Raises:
        InvalidValue: no task is named, or none of SentEval's.
    """
    return {TASKS[spec.choice("task", "", TASKS)].kind: _rows}


def _rows(spec: Spec, log: Log) -> Iterator[Row]:
    """Rows of the task's files, which are found in the folder itself, in SentEval's folder of the
    task below it, or below its ``downstream``; SICK's path may be ``SICK.txt`` itself.

    ``counts`` has the rows of each split beside what the readers count; a split whose file is not
    there has 0.

    Raises:
        CorpusError: the task's files are not there; a task of three splits may lack one of dev
            and test.
    """
    task = TASKS[spec.options["task"]]
    files = _files(spec.path, task)
    if not files.keys().isdisjoint({*SPLITS, _WHOLE}):
        log.counts.update(dict.fromkeys(SPLITS, 0))
    for row in task.read(files, log):
        if row[-1] is not None:
            log.counts[row[-1]] += 1
        yield row


def _files(path: str, task: _Task) -> Files:
    """Return the first layout that is there, with whole paths."""
    system, root = fsspec.core.url_to_fs(path)
    root, path = root.rstrip("/"), path.rstrip("/")
    if system.isfile(root):
        return _file(path, task)
    below = ("", f"/{task.folder}", f"/downstream/{task.folder}")
    for folder in below:
        for layout in task.layouts:
            there = {k: f for k, f in layout.items() if system.exists(f"{root}{folder}/{f}")}
            if there:
                _check(f"{path}{folder}", layout, there)
                return {part: f"{path}{folder}/{file}" for part, file in there.items()}
    wanted = " or ".join(", ".join(layout.values()) for layout in task.layouts)
    places = ", ".join(folder.lstrip("/") for folder in below[1:])
    raise CorpusError(path, f"there is no {wanted}; looked in the folder, {places}")


def _file(path: str, task: _Task) -> Files:
    if any(_WHOLE in layout for layout in task.layouts):
        return {_WHOLE: path}
    raise CorpusError(
        path, f"is a file; give the folder with {', '.join(task.layouts[0].values())}"
    )


def _check(folder: str, layout: Files, there: Files) -> None:
    """Refuses a layout without what the task cannot do without."""
    missing = [part for part in layout if part not in there]
    if missing and (len(layout) < len(SPLITS) or len(missing) > 1 or "train" in missing):
        names = ", ".join(layout[part] for part in missing)
        raise CorpusError(folder, f"{names} is missing; there is {', '.join(there.values())}")
