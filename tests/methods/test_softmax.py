"""The softmax head on pairs, and InferSent's sentence vectors, against plain forms of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sentune.embedder.embedder import Embedder
from sentune.encoders import WordTokenizer, load, prepare
from sentune.encoders.words.table import WordTable
from sentune.encoders.words.vectors import WordVectors
from sentune.encoders.words.whole import save_whole
from sentune.errors import InvalidValue
from sentune.methods.infersent import Infersent, InfersentSettings
from sentune.methods.sbert_softmax import Concatenation, SbertSoftmax, SbertSoftmaxSettings
from sentune.training.model import save_model
from sentune.training.settings import TrainingSettings

PAIRS, WIDTH = 6, 16
LABELS = torch.tensor([0, 1, 2, 2, 0, 1])
WORDS = ("dog", "runs", "the", "sleeps", "NASDAQ", "cat")


@pytest.fixture
def encoder(tmp_path: Path) -> nn.Module:
    torch.manual_seed(0)
    spec = f"builtin:tiny?layers=1&width={WIDTH}&heads=2&inner=32"
    return load(prepare(spec, ["a few words"], tmp_path)).double()


@pytest.fixture
def pairs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    u, v = torch.randn(2, PAIRS, WIDTH, generator=generator, dtype=torch.float64)
    return u, v


@pytest.fixture
def table() -> WordTable:
    vectors = np.random.default_rng(1).normal(size=(len(WORDS), 5)).astype(np.float32)
    return WordTable(WORDS, vectors, np.full(len(WORDS), 1 / len(WORDS)))


def loss(method: SbertSoftmax, u: Tensor, v: Tensor) -> Tensor:
    given = {"premise": u, "hypothesis": v, "label": LABELS}
    return method.double().loss(given, lambda rows: rows)


@pytest.mark.parametrize("seen", get_args(Concatenation))
def test_loss_of_section_3_term_by_term(
    encoder: nn.Module, pairs: tuple[Tensor, Tensor], seen: str
) -> None:
    method = SbertSoftmax(encoder, SbertSoftmaxSettings(concatenation=seen))  # type: ignore[arg-type]
    found = loss(method, *pairs).item()
    weight, bias = (p.tolist() for p in (method.classifier.weight, method.classifier.bias))
    expected = 0.0
    for u, v, label in zip(*(x.tolist() for x in pairs), LABELS.tolist(), strict=True):
        features: list[float] = []
        for name in seen.split(";"):
            if name == "|u-v|":
                features += [abs(a - b) for a, b in zip(u, v, strict=True)]
            elif name == "u*v":
                features += [a * b for a, b in zip(u, v, strict=True)]
            else:
                features += u if name == "u" else v
        scores = [
            sum(w * x for w, x in zip(row, features, strict=True)) + b
            for row, b in zip(weight, bias, strict=True)
        ]
        expected += math.log(sum(map(math.exp, scores))) - scores[label]
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.extras
@pytest.mark.parametrize("product", [False, True])
def test_loss_and_gradient_are_those_of_sentence_transformers(
    encoder: nn.Module, pairs: tuple[Tensor, Tensor], *, product: bool
) -> None:
    losses = pytest.importorskip("sentence_transformers.losses")
    transformers = pytest.importorskip("sentence_transformers")
    seen = "u;v;|u-v|;u*v" if product else "u;v;|u-v|"
    method = SbertSoftmax(encoder, SbertSoftmaxSettings(concatenation=seen))  # type: ignore[arg-type]
    u, v = (x.clone().requires_grad_() for x in pairs)
    ours = loss(method, u, v) / PAIRS
    theirs = losses.SoftmaxLoss(
        transformers.SentenceTransformer(modules=[nn.Identity()], device="cpu"),
        sentence_embedding_dimension=WIDTH,
        num_labels=3,
        concatenation_sent_multiplication=product,
    ).double()
    theirs.classifier.load_state_dict(method.classifier.state_dict())
    found = theirs([{"sentence_embedding": u}, {"sentence_embedding": v}], LABELS)
    torch.testing.assert_close(ours, found, rtol=1e-12, atol=0)
    wanted = torch.autograd.grad(found, (u, v))
    torch.testing.assert_close(torch.autograd.grad(ours, (u, v)), wanted, rtol=1e-12, atol=1e-15)


def test_a_classifier_with_hidden_units(encoder: nn.Module, pairs: tuple[Tensor, Tensor]) -> None:
    method = SbertSoftmax(encoder, SbertSoftmaxSettings(classifier_width=4))  # type: ignore[arg-type]
    found = loss(method, *pairs)
    first, _, last = method.classifier
    u, v = pairs
    hidden = torch.tanh(torch.hstack([u, v, (u - v).abs()]) @ first.weight.T + first.bias)
    scores = (hidden @ last.weight.T + last.bias).log_softmax(1)
    torch.testing.assert_close(found, -scores[range(PAIRS), LABELS].sum())


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_infersent_vectors_are_those_of_each_sentence_alone(table: WordTable, pooling: str) -> None:
    torch.manual_seed(2)
    method = Infersent(WordVectors(table), InfersentSettings(hidden_size=3, pooling=pooling))  # type: ignore[arg-type]
    method = method.double()
    rows = [[0, 1], [2, 5, 3, 1], [], [4]]
    ids, mask = torch.zeros(2, 4, 4, dtype=torch.long)
    for at, row in enumerate(rows):
        ids[at, : len(row)], mask[at, : len(row)] = torch.tensor(row, dtype=torch.long), 1
    found = method.embed(ids, mask)
    for row, ours in zip(rows, found, strict=True):
        words = table.vectors[row] if row else np.zeros((1, 5))
        states = _lstm(method.lstm, words.astype(np.float64))
        expected = states.max(0) if pooling == "max" else states.mean(0)
        np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-12)


def _lstm(lstm: nn.LSTM, words: np.ndarray) -> np.ndarray:
    """[L, n] -> [L, 2 H] by the equations of section 3.2, word by word."""
    sides = []
    for suffix, order in (("", 1), ("_reverse", -1)):
        w, r, b, c = (
            lstm.get_parameter(f"{name}_l0{suffix}").detach().numpy()
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        state = cell = np.zeros(r.shape[1])
        states = []
        for word in words[::order]:
            gate_in, forget, new, out = np.split(w @ word + b + r @ state + c, 4)
            cell = _sigmoid(forget) * cell + _sigmoid(gate_in) * np.tanh(new)
            state = _sigmoid(out) * np.tanh(cell)
            states.append(state)
        sides.append(np.stack(states[::order]))
    return np.concatenate(sides, axis=1)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_words_are_found_as_in_the_table(table: WordTable, tmp_path: Path) -> None:
    save_whole(table, tmp_path / "words")
    tokenizer = WordTokenizer(str(tmp_path / "words"))
    found = tokenizer.encode(["The dog runs!", "unknown", "NASDAQ sleeps, the cat"], 3)
    assert [row.tolist() for row in found] == [[2, 0, 1], [], [4, 3, 2]]
    assert tokenizer.encode([], 3) == []
    with pytest.raises(InvalidValue, match="no \\[CLS\\]"):
        tokenizer.check_pooling("cls")


class Brought(Infersent):
    """A method of a user's own on word vectors."""

    name: ClassVar[str] = f"{__name__}:Brought"


@pytest.mark.parametrize("kind", [Infersent, Brought])
def test_a_saved_infersent_embeds_as_before_and_has_no_classifier(
    kind: type[Infersent], table: WordTable, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    save_whole(table, words)
    method = kind(load(str(words)), InfersentSettings(hidden_size=3)).eval()
    training = TrainingSettings(max_length=8)
    save_model(method, str(words), tmp_path / "model", training=training, readouts={}, card={})
    embedder = Embedder.load(tmp_path / "model", "cpu")
    ids = torch.tensor([[2, 0, 1], [0, 0, 0]])
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    found = embedder.embed(["the dog runs", "quux"], show_progress=False)
    torch.testing.assert_close(found, method.embed(ids, mask).detach())
    assert not [name for name in embedder.method.state_dict() if "classifier" in name]
    assert embedder.embed(["quux"], show_progress=False).shape == (1, 6)


def test_a_saved_sbert_is_a_plain_encoder(tmp_path: Path) -> None:
    folder = prepare("builtin:tiny?layers=1&width=16&heads=2", ["a few words"], tmp_path)
    method = SbertSoftmax(load(folder), SbertSoftmaxSettings()).eval()
    training = TrainingSettings()
    save_model(method, folder, tmp_path / "model", training=training, readouts={}, card={})
    assert not (tmp_path / "model" / "head.safetensors").exists()
    embedder = Embedder.load(tmp_path / "model", "cpu")
    ids = embedder.tokenizer.encode(["few words"], 8)[0]
    expected = method.embed(torch.tensor([ids.tolist()]), torch.ones(1, len(ids)))
    found = embedder.embed(["few words"], show_progress=False)
    torch.testing.assert_close(found, expected.detach())
    assert not hasattr(embedder.method, "classifier")
