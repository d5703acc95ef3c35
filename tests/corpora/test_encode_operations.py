"""Operations on sentences as ids of two tokenizers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from sentune.corpora.encode import Encoder, OperationEncoder
from sentune.corpora.schema import OPERATIONS, SCHEMAS, Kind
from sentune.errors import InvalidValue

WORDS = ("a", "dog", "runs", "and", "barks", "loudly")
ROWS = [
    ("fusion", "a dog runs", "a dog barks", "a dog runs and barks loudly"),
    ("compression", "a dog barks loudly", None, "a dog barks"),
    ("difference", "a dog runs and barks", "a dog runs", "a dog barks"),
    ("reconstruction", "a dog runs", None, "a dog runs"),
]


def make_tokenizer(folder: Path, template: str, *, end: str | None) -> str:
    """A tokenizer by words whose template holds <s> and </s>."""
    vocabulary = {w: i for i, w in enumerate(["<pad>", "<unk>", "<s>", "</s>", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", unk_token="<unk>", eos_token=end
    ).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("tokenizers")
    return (
        make_tokenizer(root / "bart", "<s> $A </s>", end="</s>"),
        make_tokenizer(root / "t5", "$A </s>", end="</s>"),
    )


def batch_of(rows: list[tuple]) -> pa.RecordBatch:
    schema = SCHEMAS[Kind.OPERATIONS]
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def ids_of(text: str) -> list[int]:
    return [4 + WORDS.index(word) for word in text.split()]


def test_every_column_is_that_of_its_tokenizer(folders: tuple[str, str]) -> None:
    table = OperationEncoder(*folders, 20).table(batch_of(ROWS))
    assert set(map(str, table.schema.types)) == {"list<item: int32>"}
    for row, (operation, first, second, target) in zip(table.to_pylist(), ROWS, strict=True):
        assert row == {
            "operation": [OPERATIONS.index(operation)],
            "first": [2, *ids_of(first), 3],
            "second": [2, *ids_of(second), 3] if second is not None else [],
            "target": [2, *ids_of(target), 3],
            "decoded": [*ids_of(target), 3],
        }


def test_what_is_cut_still_ends(folders: tuple[str, str]) -> None:
    row = OperationEncoder(*folders, 4).table(batch_of(ROWS)).to_pylist()[0]
    assert row["target"] == [2, *ids_of("a dog"), 3]
    assert row["decoded"] == [*ids_of("a dog runs"), 3]


def test_single_sentences_alone_have_no_second(folders: tuple[str, str]) -> None:
    table = OperationEncoder(*folders, 8).table(batch_of(ROWS[1:2]))
    assert table.column("second").to_pylist() == [[]]


def test_the_fingerprint_knows_both_tokenizers(folders: tuple[str, str]) -> None:
    one, other = folders
    names = {OperationEncoder(a, b, 8).fingerprint for a in (one, other) for b in (one, other)}
    assert len(names) == 4
    assert not names & {Encoder(one, 8).fingerprint, Encoder(other, 8).fingerprint}
    assert OperationEncoder(one, other, 9).fingerprint in names


def test_a_decoder_that_never_ends_is_refused(folders: tuple[str, str], tmp_path: Path) -> None:
    endless = make_tokenizer(tmp_path, "<s> $A", end="</s>")
    with pytest.raises(InvalidValue, match=r"decoder: .* end every text"):
        OperationEncoder(folders[0], endless, 8)
