"""``--bad-rows``: how many bad rows of its corpora a job leaves out, and what it says of them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from search_spaces.intersent import SPACE as INTERSENT
from sentune.corpora.stream import Streamed
from sentune.errors import CorpusError, InvalidValue
from sentune.job.corpora import print_corpora
from sentune.job.families import JobFamily, make_job
from sentune.job.options import JobOptions, OperationOptions, parse
from sentune.job.run import tune
from sentune.summary import schema
from tests.job.test_probing import QUIET, SPACE

BAD = 120
"""Bad rows of each file, more than the 100 that are left out without the option."""


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    lines = [
        json.dumps({"sentence1": f"a cat {n}", "sentence2": f"{word} {n}", "gold_label": label})
        for n in range(40)
        for word, label in (("an animal", "entailment"), ("a stone", "contradiction"))
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join([lines[0], *["broken"] * BAD, *lines[1:]]) + "\n")
    return f"snli:{path}"


@pytest.fixture
def operations(tmp_path: Path) -> str:
    rows = [f"a cat {n} sleeps .\ta cat {n} eats and sleeps .\n" for n in range(60)]
    path = tmp_path / "pairs.tsv"
    path.write_text(rows[0] + "one column\n" * BAD + "".join(rows[1:]))
    return f"compression:{path}"


def triplet_job(corpus: str, storage: Path, **others: Any) -> JobFamily:
    given = {"corpus": corpus, "dev": [corpus], "storage": str(storage), **others}
    return make_job(parse(given, JobOptions(encoder="builtin:tiny?layers=1&width=16")), SPACE)


def test_without_the_option_a_job_refuses_and_names_it(pairs: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"pairs\.jsonl:102: .*100 are allowed.*line 2.*--bad-r"):
        triplet_job(pairs, tmp_path).prepare(QUIET)


@pytest.mark.parametrize("most", ["120", "60%"])
def test_a_job_on_triplets_leaves_bad_rows_of_all_its_corpora_out(
    most: str, pairs: str, tmp_path: Path
) -> None:
    job, text = triplet_job(pairs, tmp_path, references=pairs, bad_rows=most), io.StringIO()
    job.prepare(QUIET)
    corpora = job.corpora()
    assert {role: corpus["counts"]["bad"] for role, corpus in corpora.items()} == dict.fromkeys(
        ("corpus", "references", "dev"), BAD
    )
    first = f"{pairs.removeprefix('snli:')}:2: not valid JSON"
    assert all(corpus["first_bad"].startswith(first) for corpus in corpora.values())
    for corpus in corpora.values():
        jsonschema.validate(corpus, schema()["properties"]["corpora"]["additionalProperties"])
    print_corpora(corpora, Console(file=text, width=400))
    assert text.getvalue().count(f"{BAD} bad rows left out, the first: {first}") == len(corpora)


def test_bad_rows_of_the_test_corpus_are_refused_before_anything_is_trained(
    pairs: str, tmp_path: Path
) -> None:
    options = {"corpus": "builtin:nli?size=90", "dev": ["builtin:nli?size=90&split=dev"]}
    given = {**options, "test": [pairs], "storage": str(tmp_path / "studies"), "study": "s"}
    with pytest.raises(CorpusError, match=r"pairs\.jsonl:102: .*100 are allowed"):
        tune(parse(given, JobOptions()), SPACE)
    assert not (tmp_path / "studies" / "s").exists()


@pytest.mark.parametrize("most", ["119", "59%"])
def test_more_than_the_option_allows_are_refused(most: str, pairs: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=rf"{most} are allowed.*line 2, not valid JSON"):
        triplet_job(pairs, tmp_path, bad_rows=most).prepare(QUIET)


def test_a_corpus_that_streams_leaves_them_out_too(operations: str, tmp_path: Path) -> None:
    def job(**others: Any) -> JobFamily:
        given = {
            "corpus": [operations, "builtin:operations?size=60"],
            "dev": ["builtin:operations?split=dev&size=20"],
            "share_mb": "0",
            "set": ["batch_size=16"],
            "storage": str(tmp_path),
            **others,
        }
        tiny = dict.fromkeys(("encoder", "decoder"), "builtin:tiny?layers=1&width=16")
        return make_job(parse(given, OperationOptions(**tiny)), INTERSENT)

    with pytest.raises(CorpusError, match="100 are allowed"):
        job().prepare(QUIET)
    made = job(bad_rows="70%")
    made.prepare(QUIET)
    assert all(isinstance(handle, Streamed) for handle in made.handles())
    own, builtin = (made.corpora()[role] for role in ("corpus", "corpus-2"))
    assert (own["rows"], own["counts"]["bad"]) == (60, BAD)
    assert own["first_bad"] == f"{operations.removeprefix('compression:')}:2: " + (
        "1 column instead of 2"
    )
    assert "first_bad" not in builtin
    with pytest.raises(CorpusError, match="5% are allowed"):  # though its shards are in the cache
        job(bad_rows="5%").prepare(QUIET)


def test_a_corpus_with_a_number_of_its_own_keeps_it(pairs: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="3 are allowed"):
        triplet_job(f"{pairs}?bad_rows=3", tmp_path, bad_rows="50%").prepare(QUIET)


def test_a_program_may_give_a_number() -> None:
    assert parse({"bad_rows": 500}, JobOptions()).bad_rows == "500"
    assert parse({"bad_rows": None}, JobOptions()).bad_rows is None


@pytest.mark.parametrize("most", ["-1", "5 %", "101%", "many", "1e3", ""])
def test_what_is_neither_a_count_nor_a_share_is_refused(most: str) -> None:
    with pytest.raises(InvalidValue, match=r"--bad-rows or \?bad_rows: .*number of rows \(500\)"):
        parse({"bad_rows": most}, JobOptions())
