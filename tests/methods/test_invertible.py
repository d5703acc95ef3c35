"""The method against slow loops: the GRU, the loss, pooling, and what becomes of components."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from sentune.errors import InvalidValue, TrialFailed
from sentune.methods.invertible import PARTS, Invertible, Postprocessing, top_component
from sentune.methods.invertible_representations import Representations
from tests.methods.invertible_scenes import WIDTH, model, sentences, table
from tests.rounding import rounding

# 9 words, each some 14 products and six functions, of numbers up to 4 before they are squashed
STATES = rounding(9 * 20, 4)


def vectors(row: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(table().vectors)[row]).double()


def cell(method: Invertible, row: np.ndarray, suffix: str) -> Tensor:
    """[L, n_h] states of one direction, gate by gate."""
    gru = method.encoder.gru
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    w, u, b, c = (getattr(gru, name + suffix) for name in names)
    hidden, states = torch.zeros(gru.hidden_size, dtype=torch.float64), []
    for vector in vectors(row):
        inner, outer = (w @ vector + b).chunk(3), (u @ hidden + c).chunk(3)
        reset, update = ((inner[i] + outer[i]).sigmoid() for i in (0, 1))
        candidate = (inner[2] + reset * outer[2]).tanh()
        hidden = (1 - update) * candidate + update * hidden
        states.append(hidden)
    return torch.stack(states)


def states(method: Invertible, row: np.ndarray) -> Tensor:
    """[L, d_z] both directions at every word of one sentence alone."""
    backward = cell(method, row[::-1].copy(), "_reverse").flip(0)
    return torch.cat((cell(method, row, ""), backward), dim=1)


def test_last_states_are_of_each_sentences_own_ends() -> None:
    method, rows = model(), sentences(7)
    n_h = method.encoder.gru.hidden_size
    for z, row in zip(method.encode(rows), rows, strict=True):
        each = states(method, row)
        expected = torch.cat((each[-1, :n_h], each[0, n_h:]))
        torch.testing.assert_close(z, expected, rtol=0, atol=STATES)


@pytest.mark.parametrize("decoder", ["linear", "coupling"])
def test_the_loss_is_that_of_a_slow_loop(decoder: str) -> None:
    method = model(decoder=decoder, negatives=3)
    texts, followings = sentences(5, 1), sentences(5, 2)
    drawn = torch.randint(0, 40, (sum(map(len, followings)), 3))
    expected, at = 0.0, 0
    for text, following in zip(texts, followings, strict=True):
        x = method.decoder(method.encode([text]))[0]
        likelihood = 0.0
        for word in following:
            likelihood += torch.log(torch.sigmoid(x @ vectors(word)))
            for other in drawn[at]:
                likelihood += torch.log(torch.sigmoid(-x @ vectors(other)))
            at += 1
        expected -= likelihood / len(following)
    found = method.loss(texts, followings, drawn)
    torch.testing.assert_close(found, expected, rtol=rounding(150), atol=0)


@pytest.mark.parametrize("decoder", ["linear", "coupling"])
def test_pools_are_of_a_sentences_own_words(decoder: str) -> None:
    """Sentences one by one against all together; the third and the last have no known word."""
    method = model(decoder=decoder)
    rows = sentences(9, 3)
    rows[2] = rows[8] = np.zeros(0, dtype=np.int32)
    represent = Representations(method, max_length=9, size=4)
    parts, pools = represent.mean_parts(rows), represent.three_pools(rows)
    for i, row in enumerate(rows):
        if not len(row):
            assert not pools[i].any()
            assert not any(parts[part][i].any() for part in PARTS)
            continue
        z, back = states(method, row), method.decoder.inverse(vectors(row))
        expected = {"z_en": z, "z_de": back, "x": method.decoder(z), "words": vectors(row)}
        for part in PARTS:
            torch.testing.assert_close(parts[part][i], expected[part].mean(0))
        each = [pool for p in (z, back) for pool in (p.amax(0), p.amin(0), p.mean(0))]
        torch.testing.assert_close(pools[i], torch.cat(each))


def test_the_top_component_is_the_first_singular_vector() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(60, 7)) + 1.5 * rng.normal(size=7)
    matrix[5] = 0
    found = top_component(torch.from_numpy(matrix)).numpy()
    expected = np.linalg.svd(matrix)[2][0]
    assert abs(found @ expected) == pytest.approx(1, abs=rounding(60))
    assert top_component(torch.tensor([[2.0], [-1.0]])).tolist() == [1.0]
    with pytest.raises(TrialFailed, match="all zero"):
        top_component(torch.zeros(3, 7))
    with pytest.raises(TrialFailed, match="not finite"):
        top_component(torch.full((3, 7), torch.nan))


def test_representations_are_averages_of_what_is_left() -> None:
    method, rows = model(), sentences(30, 4)
    parts = Representations(method, max_length=9, size=8).mean_parts(rows)
    found = Postprocessing(sentence=12, word=WIDTH).double().fit(parts)(parts)
    left, even, error = {}, {}, 0.0
    for part in PARTS:
        matrix = parts[part].numpy()
        _, sigma, rows = np.linalg.svd(matrix)
        component = rows[0]
        # eps, magnified by the gap between the largest eigenvalues of matrix^T matrix
        gap = sigma[0] ** 2 / (sigma[0] ** 2 - sigma[1] ** 2)
        error = max(error, rounding(30, gap * np.linalg.norm(matrix, axis=1).max()))
        left[part] = matrix - np.outer(matrix @ component, component)
        even[part] = left[part] / np.sqrt((left[part] ** 2).sum(1).mean())
        if part in found:
            np.testing.assert_allclose(found[part], left[part], rtol=0, atol=error)
    for name, (a, b) in {"ensemble": ("z_en", "z_de"), "decoded": ("words", "x")}.items():
        np.testing.assert_allclose(found[name], (left[a] + left[b]) / 2, rtol=0, atol=error)
        scaled = (even[a] + even[b]) / 2
        shortest = min(np.sqrt((left[part] ** 2).sum(1).mean()) for part in (a, b))
        error /= min(1.0, shortest)
        np.testing.assert_allclose(found[f"{name}_scaled"], scaled, rtol=0, atol=error)


def test_components_of_the_corpus_are_stored_those_of_a_task_are_not() -> None:
    method = model()
    represent = Representations(method, max_length=9, size=4)
    represent.fit(sentences(50, 5))
    texts = ["w1 w2 w3", "w3 unknown w4", "none known", "w5 w6", "w9 w1 w7 w30"]
    stored = copy.deepcopy(method.postprocessing.state_dict())
    together, alone = represent(texts), [represent([text]) for text in texts]
    for name, values in together.items():
        torch.testing.assert_close(values, torch.cat([each[name] for each in alone]))
        assert not values[2].any(), "no known word"
    own = represent(texts, "task")
    assert top_component(own["z_en"]).abs().sum() > 0
    assert not torch.allclose(own["z_en"], together["z_en"])
    with pytest.raises(InvalidValue, match=r"component_from: 'corpora'.*corpus or task"):
        represent(texts, "corpora")  # type: ignore[arg-type]
    found = method.postprocessing.state_dict()
    assert all(torch.equal(found[name], stored[name]) for name in stored)
    assert {"component_z_en", "length_words"} <= stored.keys()


def test_word_vectors_are_in_no_checkpoint_and_not_copied() -> None:
    method = model()
    assert all(value.numel() < 40 * WIDTH for value in method.state_dict().values())
    other = copy.deepcopy(method)
    assert other.vectors is method.vectors
    words = method.words(sentences(3)).data
    assert not words.requires_grad


@pytest.mark.parametrize("constraint", [True, False])
def test_after_a_step_the_rows_move_only_under_the_constraint(constraint: bool) -> None:
    method = model(constraint=constraint, beta=0.1)
    before = method.decoder.deviation()
    method.after_step()
    assert (method.decoder.deviation() < before) is constraint
