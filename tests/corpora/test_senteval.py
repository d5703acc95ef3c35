"""SentEval's transfer tasks on small files in their official shape, in both layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.formats import kinds_of
from sentune.corpora.formats.senteval import TASKS
from sentune.errors import CorpusError, InvalidValue
from sentune.tasks.transfer import TRANSFER

SICK = "pair_ID\tsentence_A\tsentence_B\t"
SICK_WHOLE = (
    f"{SICK}entailment_label\trelatedness_score\tSemEval_set\n"
    "1\tA dog runs\tA dog moves\tENTAILMENT\t4.5\tTRAIN\n"
    "2\tA dog runs\tA cat sits\tNEUTRAL\t1.2\tTRIAL\n"
    "3\tA dog runs\tNo dog runs\tCONTRADICTION\t3\tTEST\n"
)
SICK_SPLITS = {
    f"SICK_{part}.txt": f"{SICK}relatedness_score\tentailment_judgment\n{row}\n"
    for part, row in (
        ("train", "1\tA dog runs\tA dog moves\t4.5\tENTAILMENT"),
        ("trial", "2\tA dog runs\tA cat sits\t1.2\tNEUTRAL"),
        ("test_annotated", "3\tA dog runs\tNo dog runs\t3\tCONTRADICTION"),
    )
}
SICK_LABELS = [
    ("A dog runs", "A dog moves", "entailment", "train"),
    ("A dog runs", "A cat sits", "neutral", "dev"),
    ("A dog runs", "No dog runs", "contradiction", "test"),
]
SICK_SCORES = [
    (*row[:2], score, row[3]) for row, score in zip(SICK_LABELS, (4.5, 1.2, 3.0), strict=True)
]
SST = [
    ("a fine film", None, "positive", "train"),
    ("a poor film", None, "negative", "dev"),
    ("so-so", None, "negative", "test"),
]
TREC = [("What is it ?", None, "DESC", "train"), ("Who came ?", None, "HUM", "test")]
MRPC_HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def binary(first: str, second: str, labels: tuple[str, str] = ("positive", "negative")) -> tuple:
    """Files of a task without splits, and their rows."""
    rows = [("good", None, labels[0], None), ("bad", None, labels[1], None)]
    return {first: "good \n", second: "bad\n"}, rows


CASES: list[tuple[str, str, dict[str, str], list[tuple]]] = [
    ("mr", "MR", *binary("rt-polarity.pos", "rt-polarity.neg")),
    ("cr", "CR", *binary("custrev.pos", "custrev.neg")),
    ("mpqa", "MPQA", *binary("mpqa.pos", "mpqa.neg")),
    ("subj", "SUBJ", *binary("subj.objective", "subj.subjective", ("objective", "subjective"))),
    (
        "sst2",
        "SST/binary",
        {
            "sentiment-train": "a fine film\t1\n",
            "sentiment-dev": "a poor film \t0\n",
            "sentiment-test": "so-so\t0\n",
        },
        SST,
    ),
    (
        "sst2",
        "SST/binary",
        {
            "stsa.binary.train": "1 a fine film\n",
            "stsa.binary.dev": "0 a poor film\n",
            "stsa.binary.test": "0 so-so\n",
        },
        SST,
    ),
    (
        "trec",
        "TREC",
        {"train_5500.label": "DESC:def What is it ?\n", "TREC_10.label": "HUM:ind Who came ?\n"},
        TREC,
    ),
    (
        "trec",
        "TREC",
        {"TREC.train": "DESC:def What is it ?\n", "TREC.test": "HUM:ind Who came ?\n"},
        TREC,
    ),
    (
        "mrpc",
        "MRPC",
        {
            "msr_paraphrase_train.txt": f'{MRPC_HEADER}1\t7\t8\t"A b" c\tA b\n',
            "msr_paraphrase_test.txt": f"{MRPC_HEADER}0\t9\t10\tA\tB\n",
        },
        [('"A b" c', "A b", "paraphrase", "train"), ("A", "B", "different", "test")],
    ),
    ("sick-e", "SICK", {"SICK.txt": SICK_WHOLE}, SICK_LABELS),
    ("sick-e", "SICK", SICK_SPLITS, SICK_LABELS),
    ("sick-r", "SICK", {"SICK.txt": SICK_WHOLE}, SICK_SCORES),
    ("sick-r", "SICK", SICK_SPLITS, SICK_SCORES),
    (
        "stsb-supervised",
        "STS/STSBenchmark",
        {f"sts-{s}.csv": f'g\tf\ty\t1\t2.5\tA "{s}\tB\n' for s in ("train", "dev", "test")},
        [(f'A "{s}', "B", 2.5, s) for s in ("train", "dev", "test")],
    ),
]


def write(folder: Path, files: dict[str, str], encoding: str = "utf-8") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding=encoding)
    return folder


def rows(corpus: Corpus) -> list[tuple]:
    return [tuple(row.values()) for row in corpus.table.to_pylist()]


@pytest.mark.parametrize("below", ["", "{}", "downstream/{}"])
@pytest.mark.parametrize(("task", "folder", "files", "expected"), CASES)
def test_files_are_found_in_every_layout(
    tmp_path: Path, below: str, task: str, folder: str, files: dict, expected: list[tuple]
) -> None:
    write(tmp_path / below.format(folder), files)
    corpus = read(f"senteval:{tmp_path}?task={task}", TRANSFER[task], bad_rows="0")
    assert rows(corpus) == expected
    assert corpus.counts["read"] == len(expected)


def test_every_task_is_read_as_what_transfer_tasks_need() -> None:
    assert {task: kinds_of(f"senteval:x?task={task}")[0] for task in TASKS} == TRANSFER


def test_sick_may_be_the_file_itself(tmp_path: Path) -> None:
    write(tmp_path, {"SICK.txt": SICK_WHOLE})
    corpus = read(f"senteval:{tmp_path / 'SICK.txt'}?task=sick-r", Kind.RELATED)
    assert rows(corpus) == SICK_SCORES
    with pytest.raises(CorpusError, match=r"is a file; give the folder with rt-polarity\.pos"):
        read(f"senteval:{tmp_path / 'SICK.txt'}?task=mr", Kind.CLASSIFIED)


def test_a_split_that_is_not_there_counts_0(tmp_path: Path) -> None:
    files = {name: text for name, text in CASES[5][2].items() if "test" not in name}
    corpus = read(f"senteval:{write(tmp_path, files)}?task=sst2", Kind.CLASSIFIED)
    assert corpus.counts == {"read": 2, "rows": 2, "train": 1, "dev": 1, "test": 0}


@pytest.mark.parametrize(
    ("task", "file", "reason"),
    [
        ("mr", "rt-polarity.pos", r"rt-polarity\.neg is missing"),
        ("trec", "TREC.train", r"TREC\.test is missing"),
        ("sst2", "stsa.binary.train", r"stsa\.binary\.dev, stsa\.binary\.test is missing"),
        ("sst2", "stsa.binary.dev", "missing; the folder has only stsa"),
        ("mpqa", "elsewhere", r"there is no mpqa\.pos, mpqa\.neg; looked in the folder, MPQA"),
    ],
)
def test_missing_files_are_named(tmp_path: Path, task: str, file: str, reason: str) -> None:
    write(tmp_path, {file: "1 a\n"})
    with pytest.raises(CorpusError, match=reason):
        read(f"senteval:{tmp_path}?task={task}", Kind.CLASSIFIED)


@pytest.mark.parametrize("spec", ["senteval:x", "senteval:x?task=mnli"])
def test_the_task_must_be_named(spec: str) -> None:
    with pytest.raises(InvalidValue, match=r"use mr, cr, subj, .* or stsb-supervised"):
        read(spec, Kind.CLASSIFIED)


def test_latin_1_is_read_as_such_and_counted(tmp_path: Path) -> None:
    """The byte 85 is an ellipsis in MR, not the end of a line, though Python thinks so."""
    (tmp_path / "rt-polarity.pos").write_bytes(b"caf\xe9 \x85 ol\xe9\ncaf\xc3\xa9\nplain\n \n")
    (tmp_path / "rt-polarity.neg").write_bytes(b"bad")
    corpus = read(f"senteval:{tmp_path}?task=mr", Kind.CLASSIFIED)
    assert [row[0] for row in rows(corpus)] == [
        "caf\xe9 \x85 ol\xe9",
        "caf\xc3\xa9",
        "plain",
        "bad",
    ]
    assert corpus.counts == {
        "read": 5, "rows": 4, "blank": 1, "latin_1": 2, "latin_1_like_utf_8": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("case", "file", "bad", "line", "reason"),
    [
        (4, "sentiment-dev", "no label\n", 2, "label is 'no'"),
        (5, "stsa.binary.dev", "2 a film\n", 2, "label is '2'"),
        (5, "stsa.binary.dev", "1 \n", 2, "text is empty"),
        (6, "TREC_10.label", "WHAT:x Who ?\n", 2, "label is 'WHAT'"),
        (6, "TREC_10.label", "HUM:x\n", 2, "text is empty"),
        (8, "msr_paraphrase_test.txt", "2\t1\t2\ta\tb\n", 3, "Quality is '2'"),
        (8, "msr_paraphrase_test.txt", "1\t1\t2\ta\n", 3, "4 columns, but the header has 5"),
        (9, "SICK.txt", "1\ta\tb\tMAYBE\t1\tTEST\n", 5, "unknown label 'maybe'"),
        (9, "SICK.txt", "1\ta\tb\tNEUTRAL\t1\tREST\n", 5, "SemEval_set is 'REST'"),
        (11, "SICK.txt", "1\ta\tb\tNEUTRAL\thigh\tTEST\n", 5, "relatedness_score is not a number"),
        (13, "sts-dev.csv", "g\tf\ty\t1\t2.5\tA\n", 2, "6 columns"),
    ],
)
def test_bad_rows_are_put_aside(
    tmp_path: Path, case: int, file: str, bad: str, line: int, reason: str
) -> None:
    task, _, files, expected = CASES[case]
    write(tmp_path, {**files, file: files[file] + bad})
    corpus = read(f"senteval:{tmp_path}?task={task}", TRANSFER[task])
    (put_aside,) = corpus.quarantine
    assert rows(corpus) == expected
    assert (put_aside.path, put_aside.line) == (str(tmp_path / file), line)
    assert reason in put_aside.reason


def test_a_header_without_the_column_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"SICK.txt": "pair_ID\tsentence_A\tsentence_B\tSemEval_set\n"})
    reason = r"SICK\.txt:1: the header lacks entailment_label or entailment_judgment"
    with pytest.raises(CorpusError, match=reason):
        read(f"senteval:{tmp_path}?task=sick-e", Kind.CLASSIFIED)
