"""Readers of sentence operations, on small files in their official shape."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import fsspec
import pytest

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.formats import kinds_of
from sentune.errors import CorpusError, InvalidValue


def rows(corpus: Corpus) -> list[tuple]:
    return [tuple(row.values()) for row in corpus.table.to_pylist()]


def bad(corpus: Corpus) -> list[tuple[int, str]]:
    return [(row.line, row.reason) for row in corpus.quarantine]


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def operations(spec: str, **options: int) -> Corpus:
    return read(spec, Kind.OPERATIONS, **options)


WIKISPLIT = (
    "A `` b '' , c .\tA `` b '' . <::::> C .\n"
    "Only one .\tOnly one .\n"
    "Three .\tT . <::::> H . <::::> R .\n"
    "No second .\tNo . <::::> \n"
    "no tab\n"
    "D e .\tD . <::::> E .\n"
)


def test_wikisplit_is_difference_fusion_or_both(tmp_path: Path) -> None:
    path = written(tmp_path / "tune.tsv", WIKISPLIT)
    difference = [
        ("difference", "A `` b '' , c .", "A `` b '' .", "C ."),
        ("difference", "D e .", "D .", "E ."),
    ]
    fusion = [
        ("fusion", "A `` b '' .", "C .", "A `` b '' , c ."), ("fusion", "D .", "E .", "D e ."),
    ]  # fmt: skip
    corpus = operations(f"wikisplit:{path}")
    assert rows(corpus) == difference
    assert corpus.counts == {"read": 6, "bad": 4, "rows": 2}
    assert bad(corpus) == [
        (2, "1 simple sentences instead of 2"),
        (3, "3 simple sentences instead of 2"),
        (4, "simple sentence 2 is empty"),
        (5, "1 column instead of 2"),
    ]
    assert rows(operations(f"wikisplit:{path}?operation=fusion")) == fusion
    both = operations(f"wikisplit:{path}?operation=both")
    assert rows(both) == [difference[0], fusion[0], difference[1], fusion[1]]
    assert both.counts == {"read": 6, "bad": 4, "rows": 4}
    with pytest.raises(InvalidValue, match="difference, fusion or both"):
        operations(f"wikisplit:{path}?operation=split")
    with pytest.raises(CorpusError, match="1 are allowed"):
        operations(f"wikisplit:{path}", bad_rows="1")


def test_discofuse_joins_the_coherent_sentences(tmp_path: Path) -> None:
    names = (
        "coherent_first_sentence", "coherent_second_sentence", "incoherent_first_sentence",
        "incoherent_second_sentence", "discourse_type", "connective_string",
        "has_coref_type_pronoun", "has_coref_type_nominal",
    )  # fmt: skip
    lines = [
        names,
        ("A , but b .", "", "A .", "B .", "SINGLE_S_COORD", "but", "0.0", "0.0"),
        ("A .", "However , b .", "A .", "B .", "PAIR_CONN", "however", "0.0", "0.0"),
        ("A .", "B .", "A .", "", "PAIR_NONE", "", "0.0", "0.0"),
        ("A .", "B ."),
    ]
    path = written(tmp_path / "train.tsv.gz", "".join("\t".join(line) + "\n" for line in lines))
    corpus = operations(f"discofuse:{path}")
    assert rows(corpus) == [
        ("fusion", "A .", "B .", "A , but b ."),
        ("fusion", "A .", "B .", "A . However , b ."),
    ]
    assert corpus.counts == {"read": 4, "bad": 2, "rows": 2}
    assert bad(corpus) == [
        (4, "incoherent_second_sentence is empty"), (5, "2 columns, but the header has 8"),
    ]  # fmt: skip
    path.write_bytes(gzip.compress(b"a\tb\n"))
    with pytest.raises(CorpusError, match="header lacks incoherent_first_sentence"):
        operations(f"discofuse:{path}")


def compressed_record(text: str, shorter: str) -> str:
    """As in the official files: more keys than are needed, over many lines."""
    fields = {
        "graph": {"id": "1", "sentence": text, "node": [{"form": "ROOT"}], "edge": []},
        "compression": {"text": shorter, "edge": [{"parent_id": -1}]},
        "headline": "{ no matter }",
        "source_tree": {"sentence": "another"},
    }
    return json.dumps(fields, indent=2) + "\n\n"


@pytest.mark.parametrize("name", ["comp-data.eval.json", "sent-comp.train01.json.gz"])
def test_google_compression_of_json_records(tmp_path: Path, name: str) -> None:
    first = compressed_record("A café , old , burnt .", "A café burnt .")
    text = (
        first + '{\n "graph": 1\n}\n\n' + '{ "graph":\n{ ]\n\n\n' + compressed_record("A b .", " ")
    )
    path = written(tmp_path / name, text + compressed_record("C d .", "C .").rstrip())
    corpus = operations(f"compression:{path}")
    assert rows(corpus) == [
        ("compression", "A café , old , burnt .", None, "A café burnt ."),
        ("compression", "C d .", None, "C ."),
    ]
    lines = first.count("\n")
    assert corpus.counts == {"read": 5, "bad": 3, "rows": 2}
    assert bad(corpus) == [
        (lines + 1, "the keys graph.sentence or compression.text are missing"),
        (lines + 5, "not valid JSON: Expecting property name enclosed in double quotes "
                    "at line 2 of the record"),
        (lines + 9, "compression is empty"),
    ]  # fmt: skip
    assert operations(f"compression:{path}", limit=1).counts["read"] == 1  # as a stream


def test_google_compression_of_two_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "pairs.tsv", "{ A , old }\tA\nB\nC\tD\tE\n")
    corpus = operations(f"compression:{path}")
    assert rows(corpus) == [("compression", "{ A , old }", None, "A")]
    assert bad(corpus) == [
        (2, "1 column instead of 2"), (3, "3 columns instead of 2"),
    ]  # fmt: skip


ARTICLES = "the red dog of fox ran , he said\nthe old cat sat on it\n\na b c d e\n"
TITLES = "red DOG , fox ran away\ncat sat on it\nempty article\nb c d e\n"


def gigaword(folder: Path, article: str, title: str) -> Path:
    folder.mkdir(exist_ok=True)
    written(folder / article, ARTICLES)
    written(folder / title, TITLES)
    return folder


def test_gigaword_drops_pairs_that_share_little(tmp_path: Path) -> None:
    """Shared are red, dog, fox, ran and the comma; cat and sat, for on and it are stopwords."""
    path = gigaword(tmp_path / "x", "train.article.txt", "train.title.txt")
    corpus = operations(f"gigaword:{path}")
    first, last = ARTICLES.splitlines()[0], ARTICLES.splitlines()[3]
    assert rows(corpus) == [
        ("compression", first, None, "red DOG , fox ran away"),
        ("compression", last, None, "b c d e"),
    ]
    assert corpus.counts == {"read": 4, "few_shared": 1, "bad": 1, "rows": 2}
    assert bad(corpus) == [(3, "article is empty")]
    assert operations(f"gigaword:{path}?shared=5").counts["few_shared"] == 2
    assert operations(f"gigaword:{path}?shared=2").counts["rows"] == 3


def test_a_token_that_comes_twice_is_shared_once(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tsv", "red red dog dog ran\tred red dog dog\nA b c d\tD c b a\n")
    corpus = operations(f"gigaword:{path}?shared=3")
    assert rows(corpus) == [("compression", "A b c d", None, "D c b a")]  # "a" is a stopword
    assert corpus.counts == {"read": 2, "few_shared": 1, "rows": 1}
    with pytest.raises(InvalidValue, match="the path is a file"):
        operations(f"gigaword:{path}?split=train")


def test_splits_of_gigaword_are_files_of_a_folder(tmp_path: Path) -> None:
    path = gigaword(tmp_path / "x", "valid.article.filter.txt", "valid.title.filter.txt")
    dev = operations(f"gigaword:{path}?split=dev")
    gigaword(tmp_path / "x", "input.txt.gz", "task1_ref0.txt.gz")
    assert operations(f"gigaword:{path}?split=test").fingerprint == dev.fingerprint
    memory = fsspec.filesystem("memory")
    for file in path.iterdir():
        memory.pipe_file(f"/gigaword/{file.name}", file.read_bytes())
    remote = operations("gigaword:memory://gigaword?split=dev")
    assert remote.fingerprint == dev.fingerprint
    with pytest.raises(CorpusError, match=r"no train.article.txt with train.title.txt"):
        operations(f"gigaword:{path}")
    with pytest.raises(InvalidValue, match="train, dev or test"):
        operations(f"gigaword:{path}?split=valid")


def test_bad_lines_of_parallel_files_do_not_shift_the_others(tmp_path: Path) -> None:
    (tmp_path / "train.article.txt").write_bytes(b"a1\n\xff\na3\na4\n")
    (tmp_path / "train.title.txt").write_bytes(b"t1\nt2\n\xe9\nt4\n")
    corpus = operations(f"gigaword:{tmp_path}?shared=0")
    assert [(first, target) for _, first, _, target in rows(corpus)] == [("a1", "t1"), ("a4", "t4")]
    assert corpus.counts == {"read": 4, "bad": 2, "rows": 2}
    assert {(row.path, row.line) for row in corpus.quarantine} == {
        (f"{tmp_path}/train.article.txt", 2), (f"{tmp_path}/train.title.txt", 3),
    }  # fmt: skip


@pytest.mark.parametrize("titles", ["t\n", "t\nt\nt\n"])
def test_parallel_files_of_other_lengths_are_refused(tmp_path: Path, titles: str) -> None:
    written(tmp_path / "train.article.txt", "a\nb\n")
    written(tmp_path / "train.title.txt", titles)
    lines = titles.count("\n")
    with pytest.raises(CorpusError, match=f"title.txt: {lines} lines, but .*article.txt has 2"):
        operations(f"gigaword:{tmp_path}?shared=0")


def test_paranmt_with_and_without_scores(tmp_path: Path) -> None:
    path = written(tmp_path / "para.txt", 'a "b\tb a\t0.9\nc\td\ne\t\t1\nf\n')
    corpus = operations(f"paranmt:{path}")
    assert rows(corpus) == [
        ("reconstruction", 'a "b', None, "b a"), ("reconstruction", "c", None, "d"),
    ]  # fmt: skip
    assert bad(corpus) == [(3, "sentence2 is empty"), (4, "1 column instead of 2 to 3")]


def test_quora_takes_the_duplicates(tmp_path: Path) -> None:
    path = written(
        tmp_path / "quora_duplicate_questions.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        "0\t1\t2\tHow?\tWhy?\t0\n"
        '1\t3\t4\t"What is\na ""tab""?"\tWhat is it?\t1\n'
        "2\t5\t6\tWho?\t\t1\n"
        "3\t7\t8\tWho?\tWhom?\tyes\n"
        "4\t9\n",
    )
    corpus = operations(f"quora:{path}")
    assert rows(corpus) == [("reconstruction", 'What is\na "tab"?', None, "What is it?")]
    assert corpus.counts == {"read": 5, "no_duplicates": 1, "bad": 3, "rows": 1}
    assert bad(corpus) == [
        (5, "question2 is empty"),
        (6, "is_duplicate is 'yes', neither 0 nor 1"),
        (7, "2 columns, but the header has 6"),
    ]
    written(path, "id\tquestion1\tquestion2\n")
    with pytest.raises(CorpusError, match="header lacks is_duplicate"):
        operations(f"quora:{path}")
    quote = 'question1\tquestion2\tis_duplicate\n"never closed\tb\t1\n' + "a\tb\t1\n" * 40_000
    with pytest.raises(CorpusError, match="quotes are damaged"):
        operations(f"quora:{written(path, quote)}")


OWN = (
    '{"operation": "fusion", "first": "A b", "second": "A c", "target": "A b and c"}\n'
    '{"operation": "compression", "first": "A b", "target": "A"}\n'
    '{"operation": "reconstruction", "first": "A", "second": null, "target": "A"}\n'
    '{"operation": "difference", "first": "A b and c", "target": "A c"}\n'
    '{"operation": "compression", "first": "A b", "second": "A", "target": "A"}\n'
    '{"operation": "addition", "first": "A b", "target": "A"}\n'
    '{"first": "A b", "target": "A"}\n'
    '{"operation": "compression", "first": "A b", "target": 1}\n'
)


def test_operations_of_ones_own(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.jsonl", OWN)
    corpus = operations(f"operations:{path}")
    assert rows(corpus) == [
        ("fusion", "A b", "A c", "A b and c"),
        ("compression", "A b", None, "A"),
        ("reconstruction", "A", None, "A"),
    ]
    assert bad(corpus) == [
        (4, "second is missing"),
        (5, "compression takes one sentence, but second is 'A'"),
        (6, "unknown operation 'addition'"),
        (7, "the key operation is missing"),
        (8, "target is not a string"),
    ]
    chosen = operations(f"operations:{path}?operations=reconstruction%2Bfusion")
    assert [row[0] for row in rows(chosen)] == ["fusion", "reconstruction"]
    assert chosen.counts == {"read": 8, "bad": 5, "other_operations": 1, "rows": 2}
    with pytest.raises(InvalidValue, match="use some of fusion, difference"):
        operations(f"operations:{path}?operations=fusion+merge")


@pytest.mark.parametrize(
    "format",
    ["wikisplit", "discofuse", "compression", "gigaword", "paranmt", "quora", "operations"],
)
def test_every_format_gives_pairs_and_sentences_too(tmp_path: Path, format: str) -> None:
    kinds = (Kind.OPERATIONS, Kind.SENTENCE_PAIRS, Kind.SENTENCES)
    assert kinds_of(f"{format}:{tmp_path}/x") == kinds
    with pytest.raises(CorpusError, match="no such file"):
        operations(f"{format}:{tmp_path}/x")


def test_google_s_train_files_are_a_folder(tmp_path: Path) -> None:
    for number in (2, 1):
        record = compressed_record(f"A b {number} .", f"A {number} .")
        written(tmp_path / f"sent-comp.train0{number}.json", record)
    written(tmp_path / "comp-data.eval.json", compressed_record("No .", "No ."))
    found = rows(operations(f"compression:{tmp_path}"))
    assert [target for *_, target in found] == ["A 1 .", "A 2 ."]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CorpusError, match="the folder has no sent-comp"):
        operations(f"compression:{empty}")
