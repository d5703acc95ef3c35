"""The format ``senteval``: files and rows of SentEval's transfer tasks (Conneau & Kiela 2018)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from sentune.corpora.formats.reading import (
    BadFieldError,
    Log,
    Readers,
    Row,
    check_label,
    number,
    raw_lines,
    sentence,
)
from sentune.corpora.formats.spec import Spec
from sentune.corpora.formats.sts import stsb
from sentune.corpora.schema import SPLITS, Kind
from sentune.errors import CorpusError
from sentune.io.object_store import files_at

Files = Mapping[str, str]
"""Split -> file, or label -> file if the task has no splits."""

_WHOLE = "whole"
"""Key of a layout's single file with all splits."""

_SENTIMENTS = {"0": "negative", "1": "positive"}
_QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_PARAPHRASE = {"0": "different", "1": "paraphrase"}
_SETS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}


def _labelled(label: str, path: str, log: Log) -> Iterator[Row]:
    """Yield rows of tasks with a Latin-1 file for each label, one sentence per line, no splits.

    Blank lines are counted and left out. CR has 4 in 3,775; SentEval encodes them as a full stop or
    an empty sentence, depending on the model's code.
    """
    for _, text in _latin(path, log):
        if text.strip():
            yield text.strip(), None, label, None
        else:
            log.counts["blank"] += 1


def _sentiment(split: str, path: str, log: Log) -> Iterator[Row]:
    """Yield rows of SST2, with labels 0 and 1.

    Lines are ``sentence TAB label`` in SentEval's ``sentiment-SPLIT``, and ``label sentence`` in
    ``stsa.binary.SPLIT``.
    """
    for line, text in log.lines(path):
        first, tab, last = text.rpartition("\t")
        mark, _, words = (last, tab, first) if tab else text.partition(" ")
        with log.checks(path, line):
            if mark.strip() not in _SENTIMENTS:
                raise BadFieldError(f"the label is {mark!r}, not 0 or 1")
            yield sentence(words, "text"), None, _SENTIMENTS[mark.strip()], split


def _questions(split: str, path: str, log: Log) -> Iterator[Row]:
    """Yield rows of TREC, ``COARSE:fine question`` in Latin-1; COARSE is the label."""
    for line, text in _latin(path, log):
        coarse, _, rest = text.strip().partition(":")
        with log.checks(path, line):
            if coarse not in _QUESTIONS:
                names = ", ".join(_QUESTIONS)
                raise BadFieldError(f"the label is {coarse!r}, not one of {names}")
            yield sentence(rest.partition(" ")[2], "text"), None, coarse, split


def _latin(path: str, log: Log) -> Iterator[tuple[int, str]]:
    """Yield the lines of a Latin-1 file with their numbers, from 1, as SentEval reads them.

    The log counts lines with a byte beyond ASCII as ``latin_1``, and those among them that are
    valid UTF-8 as ``latin_1_like_utf_8``, which shows that a file was converted and is misread.
    Lines end at a newline only, because Python also breaks lines at byte 85 (an ellipsis in MR and
    SUBJ).
    """
    for line, raw in raw_lines(path):
        log.counts["read"] += 1
        if not raw.isascii():
            log.counts["latin_1"] += 1
            log.counts["latin_1_like_utf_8"] += 0
            with suppress(UnicodeDecodeError):
                raw.decode()
                log.counts["latin_1_like_utf_8"] += 1
        yield line, raw.decode("latin-1").rstrip("\r\n")


def _paraphrases(split: str, path: str, log: Log) -> Iterator[Row]:
    """Yield rows of MRPC: quality (0 or 1), two ids and two sentences below a header."""
    for line, fields in log.headed(path, "Quality", "#1 String", "#2 String"):
        with log.checks(path, line):
            if fields["Quality"] not in _PARAPHRASE:
                raise BadFieldError(f"Quality is {fields['Quality']!r}, not 0 or 1")
            first, second = (sentence(fields[n], n) for n in ("#1 String", "#2 String"))
            yield first, second, _PARAPHRASE[fields["Quality"]], split


def _sick(
    names: tuple[str, ...], value: Callable[[str], object], part: str, path: str, log: Log
) -> Iterator[Row]:
    """Yield rows of SICK with the first existing column of ``names``, converted by ``value``."""
    own = ("SemEval_set",) if part == _WHOLE else ()
    for line, fields in log.headed(path, "sentence_A", "sentence_B", names, *own):
        with log.checks(path, line):
            first, second = (sentence(fields[n], n) for n in ("sentence_A", "sentence_B"))
            gold = value(next(fields[name] for name in names if name in fields))
            if own and fields["SemEval_set"] not in _SETS:
                name = fields["SemEval_set"]
                raise BadFieldError(f"SemEval_set is {name!r}, not one of {', '.join(_SETS)}")
            yield first, second, gold, _SETS[fields["SemEval_set"]] if own else part


def _benchmark(split: str, path: str, log: Log) -> Iterator[Row]:
    """Yield rows of the STS Benchmark: pairs with their similarity from 0 to 5."""
    source = Spec(text=path, format="stsb", path=path, options={})
    yield from ((first, second, score, split) for first, second, score, _ in stsb(source, log))


class _Task(NamedTuple):
    """A transfer task: its folder in SentEval's ``downstream``, its reader and layouts of files.

    Layouts are the files as SentEval and others name them. The first existing one is read.
    """

    folder: str
    read: Callable[[str, str, Log], Iterator[Row]]
    layouts: tuple[Files, ...]
    kind: Kind = Kind.CLASSIFIED


def _splits(train: str, dev: str, test: str) -> Files:
    return {"train": train, "dev": dev, "test": test}


_SICK = (
    {_WHOLE: "SICK.txt"},
    _splits("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"),
)
_SICK_LABELS = partial(  # the column's names in SICK.txt and in SemEval's files
    _sick, ("entailment_label", "entailment_judgment"), lambda value: check_label(value.lower())
)
_SICK_SCORES = partial(_sick, ("relatedness_score",), partial(number, name="relatedness_score"))

TASKS: dict[str, _Task] = {
    "mr": _Task("MR", _labelled, ({"positive": "rt-polarity.pos", "negative": "rt-polarity.neg"},)),
    "cr": _Task("CR", _labelled, ({"positive": "custrev.pos", "negative": "custrev.neg"},)),
    "subj": _Task(
        "SUBJ", _labelled, ({"objective": "subj.objective", "subjective": "subj.subjective"},)
    ),
    "mpqa": _Task("MPQA", _labelled, ({"positive": "mpqa.pos", "negative": "mpqa.neg"},)),
    "sst2": _Task(
        "SST/binary",
        _sentiment,
        (
            _splits("sentiment-train", "sentiment-dev", "sentiment-test"),
            _splits("stsa.binary.train", "stsa.binary.dev", "stsa.binary.test"),
        ),
    ),
    "trec": _Task(
        "TREC",
        _questions,
        (
            {"train": "train_5500.label", "test": "TREC_10.label"},
            {"train": "TREC.train", "test": "TREC.test"},
        ),
    ),
    "mrpc": _Task(
        "MRPC",
        _paraphrases,
        ({"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},),
    ),
    "sick-e": _Task("SICK", _SICK_LABELS, _SICK),
    "sick-r": _Task("SICK", _SICK_SCORES, _SICK, Kind.RELATED),
    "stsb-supervised": _Task(
        "STS/STSBenchmark",
        _benchmark,
        (_splits("sts-train.csv", "sts-dev.csv", "sts-test.csv"),),
        Kind.RELATED,
    ),
}

OPTIONS = {"task": f"one of {', '.join(TASKS)}"}


def readers(spec: Spec) -> Readers:
    """Return the reader of the task's kind."""
    return {TASKS[spec.choice("task", "", TASKS)].kind: _rows}


def _rows(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield the rows of the task's files and count the rows of each split.

    The files are searched in the folder itself, in the task's folder below it, and below its
    ``downstream``. SICK's path may also be ``SICK.txt`` itself. A task of three splits may lack dev
    or test.
    """
    task = TASKS[spec.options["task"]]
    files = _files(spec.path, task)
    if not files.keys().isdisjoint({*SPLITS, _WHOLE}):
        log.counts.update(dict.fromkeys(SPLITS, 0))
    for part, path in files.items():
        for row in task.read(part, path, log):
            if row[-1] is not None:
                log.counts[row[-1]] += 1
            yield row


def _files(path: str, task: _Task) -> Files:
    """Return the first existing layout, with full paths."""
    system, root = files_at(path)
    root, path = root.rstrip("/"), path.rstrip("/")
    if system.isfile(root):
        if any(_WHOLE in layout for layout in task.layouts):
            return {_WHOLE: path}
        names = ", ".join(task.layouts[0].values())
        raise CorpusError(path, f"this is a file; give the folder with {names}")
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


def _check(folder: str, layout: Files, there: Files) -> None:
    """Raise a ``CorpusError`` if a required file of the layout is missing."""
    missing = [part for part in layout if part not in there]
    if missing and (len(layout) < len(SPLITS) or len(missing) > 1 or "train" in missing):
        names = ", ".join(layout[part] for part in missing)
        found = ", ".join(there.values())
        raise CorpusError(folder, f"{names} is missing; the folder has only {found}")
