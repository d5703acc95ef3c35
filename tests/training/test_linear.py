"""LINEAR on corpora in which one word of the hypothesis decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BartConfig,
    BartModel,
    BertConfig,
    DistilBertConfig,
    DistilBertModel,
)

from sentune.corpora import SCHEMAS, Corpus, Kind
from sentune.encoders import TextEncoder, load, prepare
from sentune.errors import InvalidValue, TrialFailed
from sentune.training import linear
from sentune.training.linear import (
    ClassifiedPairs,
    LinearSettings,
    PairClassifier,
    PairTokenizer,
    build,
    fit,
    judge,
    predict,
    three_way_examples,
    two_way_examples,
)
from tests.embedder.test_pretrained import save_tokenizer
from tests.rounding import rounding

CPU = torch.device("cpu")
TEXTS = ["red green blue round square small large thing", "yes no maybe"]
FAST = LinearSettings(learning_rate=5e-3, batch_size=16, max_length=32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    spec = "builtin:tiny?layers=1&width=32&heads=2&inner=64&dropout=0.1"
    return prepare(spec, TEXTS, tmp_path_factory.mktemp("encoders"))


@pytest.fixture(scope="module")
def tokenizer(folder: str) -> PairTokenizer:
    return PairTokenizer(folder, FAST.max_length)


def pairs_with(words: list[str], count: int, seed: int) -> ClassifiedPairs:
    """Random pairs whose class is the place of the word that ends the hypothesis."""
    random, vocabulary = np.random.default_rng(seed), TEXTS[0].split()

    def text() -> str:
        return " ".join(random.choice(vocabulary, size=random.integers(1, 6)))

    classes = random.integers(0, len(words), count)
    return ClassifiedPairs([(text(), f"{text()} {words[c]}") for c in classes], classes)


def corpus(kind: Kind, *rows: tuple) -> Corpus:
    columns = dict(zip(SCHEMAS[kind].names, map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table(columns, schema=SCHEMAS[kind])
    return Corpus(spec="x:made", kind=kind, table=table, fingerprint="")


def test_pairs_are_encoded_with_their_types(folder: str, tokenizer: PairTokenizer) -> None:
    pairs = [("red thing", "blue"), ("small", "large round square thing no"), ("yes", "no")]
    ((places, encoded),) = tokenizer.parts(pairs, CPU)
    reference = AutoTokenizer.from_pretrained(folder)
    assert list(encoded) == ["input_ids", "token_type_ids", "attention_mask"]
    for place, row, row_types, mask in zip(places, *encoded.values(), strict=True):
        premise, hypothesis = pairs[place]
        ids, types = row[: int(mask.sum())].tolist(), row_types[: int(mask.sum())].tolist()
        text = f"[CLS] {premise} [SEP] {hypothesis} [SEP]"
        assert ids == reference(text, add_special_tokens=False)["input_ids"]
        split = ids.index(reference.sep_token_id) + 1
        assert types == [0] * split + [1] * (len(ids) - split)
    assert (encoded["token_type_ids"][encoded["attention_mask"] == 0] == 0).all()
    ((_, cut),) = PairTokenizer(folder, 8).parts(pairs[1:2], CPU)
    assert cut["input_ids"].shape == (1, 8)


def test_pairs_of_like_length_go_together(
    tokenizer: PairTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "sentences_at_a_time", lambda device: 2)
    pairs = [("red thing", "blue"), ("small", "large round square thing no"), ("yes", "no")]
    parts = list(tokenizer.parts(pairs, CPU))
    assert [tuple(inputs["input_ids"].shape) for _, inputs in parts] == [(2, 9), (1, 5)]
    assert np.concatenate([places for places, _ in parts]).tolist() == [1, 0, 2]


def test_the_logits_are_a_linear_layer_on_the_state_of_cls(
    folder: str, tokenizer: PairTokenizer
) -> None:
    model = PairClassifier(load(folder), 2).eval()
    ((_, inputs),) = tokenizer.parts([("red", "blue no"), ("a", "b")], CPU)
    states = model.encoder.model(**inputs).last_hidden_state
    expected = states[:, 0] @ model.layer.weight.T + model.layer.bias
    torch.testing.assert_close(model(inputs), expected)
    without = model({**inputs, "token_type_ids": torch.zeros_like(inputs["token_type_ids"])})
    assert (model(inputs) - without).abs().max() > 1e-4  # the types are used


def test_an_encoder_without_token_types() -> None:
    config = DistilBertConfig(vocab_size=20, dim=16, hidden_dim=16, n_layers=1, n_heads=2)
    model = PairClassifier(TextEncoder(DistilBertModel(config)), 3)
    ones = torch.ones(2, 5, dtype=torch.int64)
    inputs = {"input_ids": ones, "attention_mask": ones, "token_type_ids": ones}
    assert model(inputs).shape == (2, 3)


def test_an_encoder_of_an_encoder_decoder_stands_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    config = BartConfig(
        vocab_size=32, d_model=16, encoder_attention_heads=2, decoder_attention_heads=2, **sizes
    )
    BartModel(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path, special=True, padded=True)
    model = PairClassifier(load(str(tmp_path)), 2)
    ((_, inputs),) = PairTokenizer(str(tmp_path), 20).parts([("a dog", "the cat runs")], CPU)
    assert model(inputs).shape == (1, 2)


def test_a_tokenizer_without_cls_is_refused(tmp_path: Path) -> None:
    BertConfig(vocab_size=32).save_pretrained(tmp_path)
    save_tokenizer(tmp_path, special=False, padded=True)
    with pytest.raises(InvalidValue, match=r"--encoder: .* begins sentences with \[CLS\]"):
        PairTokenizer(str(tmp_path), 20)


def test_two_stages_learn_what_can_be_learned(folder: str, tokenizer: PairTokenizer) -> None:
    model = build(folder, FAST, CPU)
    losses = fit(model, tokenizer, pairs_with(["yes", "no"], 320, 0), FAST, epochs=3)
    assert len(losses) == 60
    assert losses[-1] < 0.1 < losses[0]
    unseen = pairs_with(["yes", "no"], 100, 1)
    answers = predict(model, tokenizer, unseen.pairs)
    assert (answers == unseen.classes).mean() > 0.97
    model.renew(3)
    fit(model, tokenizer, pairs_with(["yes", "no", "maybe"], 320, 2), FAST, epochs=3)
    unseen = pairs_with(["yes", "no", "maybe"], 100, 3)
    answers = predict(model, tokenizer, unseen.pairs)
    assert (answers == unseen.classes).mean() > 0.97
    assert set(answers.tolist()) == {0, 1, 2}


def test_the_seed_decides_the_weights(folder: str, tokenizer: PairTokenizer) -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(99 + seed)  # what was drawn before does not matter
        settings = FAST.model_copy(update={"seed": seed})
        model = build(folder, settings, CPU)
        fit(model, tokenizer, pairs_with(["yes", "no"], 40, 0), settings, epochs=2)
        model.renew(3)
        fit(model, tokenizer, pairs_with(["yes", "no", "maybe"], 20, 0), settings, epochs=1)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_parts_of_like_length_change_no_gradient(
    folder: str, tokenizer: PairTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = pairs_with(["yes", "no"], 20, 0)
    model = build(folder, FAST, CPU).double().eval()

    def gradient(part: int) -> tuple[float, torch.Tensor]:
        monkeypatch.setattr(linear, "sentences_at_a_time", lambda device: part)
        model.zero_grad()
        loss = linear._backward(model, tokenizer, examples.pairs, examples.classes)
        return loss, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    (whole, expected), (parted, found) = gradient(64), gradient(7)
    assert parted == pytest.approx(whole, rel=rounding(32 * model.encoder.width))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_the_weight_of_a_class_is_that_of_its_pairs_in_the_loss(
    folder: str, tokenizer: PairTokenizer
) -> None:
    examples = pairs_with(["yes", "no"], 20, 0)
    model = build(folder, FAST, CPU).double().eval()
    weights = torch.tensor([0.5, 2.5], dtype=torch.float64)
    loss = linear._backward(model, tokenizer, examples.pairs, examples.classes, weights)
    one_by_one = [
        float(weights[c]) * linear._backward(model, tokenizer, [pair], np.array([c]))
        for pair, c in zip(examples.pairs, examples.classes, strict=True)
    ]
    assert loss == pytest.approx(np.mean(one_by_one), rel=rounding(32 * model.encoder.width))


def test_every_pair_is_seen_once_an_epoch_and_max_examples_ends_the_run(
    folder: str, tokenizer: PairTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []

    def backward(*args: object) -> float:
        seen.append(np.asarray(args[3]).tolist())
        return 0.5

    monkeypatch.setattr(linear, "_backward", backward)
    model, told = build(folder, FAST, CPU), []
    examples = ClassifiedPairs([("red", "blue")] * 40, np.arange(40))
    fit(model, tokenizer, examples, FAST, epochs=2, say=told.append)
    assert [len(batch) for batch in seen] == [16, 16, 8] * 2
    for epoch in (seen[:3], seen[3:]):
        assert sorted(place for batch in epoch for place in batch) == list(range(40))
    assert seen[0] != seen[3]
    assert "6 of 6 steps  loss 0.5000" in told[-1]
    assert len(fit(model, tokenizer, examples, FAST, epochs=2, max_examples=33)) == 3
    monkeypatch.setattr(linear, "_backward", lambda *args: float("nan"))
    with pytest.raises(TrialFailed, match="nan in step 1"):
        fit(model, tokenizer, examples, FAST, epochs=1)


def test_examples_of_each_kind_of_corpus() -> None:
    found = two_way_examples(corpus(Kind.TRIPLETS, ("a", "p", "n"), ("b", "q", "m")))
    assert list(found.pairs) == [("a", "p"), ("a", "n"), ("b", "q"), ("b", "m")]
    assert found.classes.tolist() == [0, 1, 0, 1]
    labels = ("entailment", "neutral", "contradiction")
    pairs = corpus(Kind.LABELLED_PAIRS, *(("p", "h", label, None) for label in labels))
    assert two_way_examples(pairs).classes.tolist() == [0, 1, 1]
    several = [["entailment"], ["neutral", "contradiction"], ["entailment", "contradiction"]]
    many = corpus(Kind.SEVERAL_LABELS, *(("p", "h", given) for given in several))
    assert three_way_examples(many).classes.tolist() == [0, 1, 2]


def test_metrics_against_counting() -> None:
    random = np.random.default_rng(0)
    gold, said = random.integers(0, 3, 200), random.integers(0, 2, 200)
    found = judge("x", "ambiguous-rte", said, gold).metrics
    each = []
    for number, name in enumerate(("entailment", "non_entailment", "both")):
        hits = sum(g == s == number for g, s in zip(gold, said, strict=True))
        each.append(2 * hits / ((gold == number).sum() + (said == number).sum()))
        assert found[f"x/f1_{name}"] == pytest.approx(each[-1])
    assert found["x/f1_both"] == 0
    assert found["x/macro_f1"] == pytest.approx(sum(each) / 3)
    assert found["x/accuracy"] == pytest.approx(np.mean(gold == said))
    two = judge("y", "rte", np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]))
    assert two.metrics == {"y/accuracy": 0.75, "y/majority": 0.5}
    assert two.tables["y/counts.json"] == {"pairs": 4}


def test_pairs_that_the_encoder_cannot_take_are_refused(folder: str) -> None:
    with pytest.raises(InvalidValue, match="at most 128 tokens"):
        build(folder, LinearSettings(max_length=129), CPU)
