"""Specifications, options, slices and kinds: what is allowed, and what a refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentune.corpora import Kind, read
from sentune.corpora.formats import FORMATS, kinds_of
from sentune.corpora.formats.select import parse_slice, take, take_premises
from sentune.corpora.formats.spec import parse
from sentune.errors import InvalidValue

END = st.none() | st.integers(-12, 12)


def test_a_specification_is_taken_apart() -> None:
    spec = parse("hf:s3://bucket/a?b?columns=premise:a,hypothesis:b&split=x%26y", FORMATS)
    assert (spec.format, spec.path) == ("hf", "s3://bucket/a?b")
    assert spec.mapping("columns") == {"premise": "a", "hypothesis": "b"}
    assert spec.options["split"] == "x&y"


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (
            "snil:x",
            "snli, multinli, ambient, chaosnli, simcse-csv, sick, stsb, sts, csts, senteval, beir, "
            "parquet, text",
        ),
        ("no colon", "FORMAT:PATH"),
        ("snli:", "give the path"),
        ("snli:x?limit=3", "rows .A:B"),
        ("sick:x?split", "key=value"),
        ("sick:x?split=TEST&split=TRIAL", "once"),
        ("sick:x?split=train", "TRAIN, TRIAL, TEST"),
        ("snli:x?rows=5", "A:B"),
        ("snli:x?premises=a:b", "A:B"),
        (f"snli:x?rows=0:{10**20}", "A:B"),
        ("snli:x?negatives=two", "one or all"),
        ("builtin:nlp", "builtin:nli"),
        ("builtin:nli?split=TRAIN", "train, dev or test"),
        ("builtin:nli?size=0", "at least 1"),
        ("builtin:nli?seed=one", "an integer"),
    ],
)
def test_a_wrong_specification_is_refused_naming_what_is_allowed(spec: str, names: str) -> None:
    with pytest.raises(InvalidValue, match=names):
        read(spec, Kind.LABELLED_PAIRS)


@pytest.mark.parametrize(
    ("spec", "kind", "given"),
    [
        ("stsb:x", Kind.TRIPLETS, "read as scored-pairs, sentences"),
        ("text:x", Kind.LABELLED_PAIRS, "read as sentences"),
        ("snli:x", Kind.SCORED_PAIRS, "read as triplets, labelled-pairs, sentences"),
        ("simcse-csv:x", Kind.LABELLED_PAIRS, "read as triplets, sentences"),
    ],
)
def test_a_kind_that_a_format_lacks_is_refused_naming_its_kinds(
    spec: str, kind: Kind, given: str
) -> None:
    with pytest.raises(InvalidValue, match=given):
        read(spec, kind)


def test_the_own_kinds_of_a_format_come_first() -> None:
    assert kinds_of("snli:x")[0] is Kind.LABELLED_PAIRS
    assert kinds_of("sick:x")[:2] == (Kind.LABELLED_PAIRS, Kind.SCORED_PAIRS)


@given(st.lists(st.integers(), max_size=15), END, END)
def test_a_slice_of_a_stream_is_the_slice_of_the_list(
    items: list[int], start: int | None, stop: int | None
) -> None:
    ends = ("" if end is None else str(end) for end in (start, stop))
    part = parse_slice("rows", ":".join(ends))
    assert list(take(iter(items), part)) == items[start:stop]


@given(st.lists(st.sampled_from("abcdef"), max_size=20), END, END)
def test_premises_are_sliced_in_order_of_first_appearance(
    premises: list[str], start: int | None, stop: int | None
) -> None:
    rows = [(premise, number) for number, premise in enumerate(premises)]
    chosen = list(dict.fromkeys(premises))[start:stop]
    expected = [row for row in rows if row[0] in chosen]
    assert list(take_premises(iter(rows), slice(start, stop))) == expected


def test_slices_and_limit_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n}\n" for n in range(10)))

    def numbers(options: str, limit: int | None = None) -> list[str]:
        corpus = read(f"text:{path}{options}", Kind.SENTENCES, limit=limit)
        return corpus.table.column("text").to_pylist()

    assert numbers("?rows=2:5") == ["2", "3", "4"]
    assert numbers("?rows=-3:") == ["7", "8", "9"]
    assert numbers("?rows=2:9", limit=2) == ["2", "3"]
    assert numbers("?premises=-2:") == ["8", "9"]
