"""LAES as its paper writes it down: the whole data matrix, one sentence at a time, slowly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sentune.encoders.words import WordTable

A_OF_SIF = 1e-3


def table(words: int = 40, width: int = 5, seed: int = 0) -> WordTable:
    """Words ``w0`` ... with random vectors; every seventh is not in the frequency list."""
    rng = np.random.default_rng(seed)
    probabilities = rng.uniform(0, 5e-3, size=words)
    probabilities[::7] = 0
    vectors = rng.normal(size=(words, width)).astype(np.float32)
    return WordTable(tuple(f"w{i}" for i in range(words)), vectors, probabilities)


def sentences(lengths: Sequence[int], words: int = 40, seed: int = 0) -> list[str]:
    """Sentences of so many known words; every fourth has an unknown one in between."""
    rng = np.random.default_rng(seed)
    found = []
    for number, length in enumerate(lengths):
        text = [f"w{i}" for i in rng.integers(words, size=length)]
        found.append(" ".join([*text[:1], "unknown", *text[1:]] if number % 4 == 3 else text))
    return found


def vectors(words: WordTable, text: str, longest: int | None = None) -> np.ndarray:
    """[l, n] x_t = a / (a + p(w)) v_w."""
    ids = [words.row[word] for word in text.split() if word in words.row][:longest]
    found = [
        A_OF_SIF / (A_OF_SIF + words.probabilities[i]) * words.vectors[i].astype(float) for i in ids
    ]
    return np.array(found).reshape(len(ids), words.vectors.shape[1])


def data_matrix(sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Xi (section IV-A): each sentence's reversed beginnings, padded with zeros."""
    longest, width = max(map(len, sequences)), sequences[0].shape[1]
    rows = []
    for x in sequences:
        for t in range(len(x)):
            row = np.zeros((longest, width))
            row[: t + 1] = x[t::-1]
            rows.append(row.ravel())
    return np.array(rows)


def shift(sequences: Sequence[np.ndarray]) -> np.ndarray:
    """R (Eq. 4), one block for each sentence."""
    ends = np.cumsum([len(x) for x in sequences])
    R = np.eye(ends[-1], k=-1)
    R[[end for end in ends[:-1] if end < len(R)]] = 0
    return R


def autoencoder(sequences: Sequence[np.ndarray], p: int) -> tuple[np.ndarray, np.ndarray]:
    """A = U_1^T and B = Q^T with Q = Sigma V^T R^T V Sigma^-1, from the SVD of Xi."""
    sequences = [x for x in sequences if len(x)]
    V, sigma, Ut = np.linalg.svd(data_matrix(sequences), full_matrices=False)
    V, sigma, U = V[:, :p], sigma[:p], Ut[:p].T
    Q = np.diag(sigma) @ V.T @ shift(sequences).T @ V @ np.diag(1 / sigma)
    return U[: sequences[0].shape[1]].T, Q.T


def encode(A: np.ndarray, B: np.ndarray, x: np.ndarray) -> np.ndarray:
    """h_l (Eq. 1 and 6)."""
    h = np.zeros(len(A))
    for word in x:
        h = A @ word + B @ h
    return h


def decode(A: np.ndarray, B: np.ndarray, h: np.ndarray, length: int) -> np.ndarray:
    """[l, n] the words decoded from h (Eq. 2), in the order of the sentence."""
    found = np.zeros((length, A.shape[1]))
    for t in range(length - 1, -1, -1):
        found[t] = A.T @ h
        h = B.T @ h
    return found


Model = tuple[np.ndarray, np.ndarray]


def embedding(
    form: str, forward: Model, backward: Model | None, x: np.ndarray, decoding: str = "last"
) -> np.ndarray:
    """Section V, one sentence."""
    if form == "hid":
        return encode(*forward, x)
    if form.startswith("bres"):
        assert backward is not None
        both = [residual(forward, x, decoding), residual(backward, x[::-1], decoding)]
        return np.concatenate(both) if form == "bres-cat" else (both[0] + both[1]) / 2
    residuals = residual(forward, x, decoding)
    return residuals if form == "res" else mean(decoded(forward, x, decoding))


def residual(model: Model, x: np.ndarray, decoding: str) -> np.ndarray:
    """Algorithm 2."""
    return mean(x - decoded(model, x, decoding))


def decoded(model: Model, x: np.ndarray, decoding: str = "last") -> np.ndarray:
    if decoding == "states":  # A^T h_i of the encoder
        A, B = model
        return np.array([A.T @ encode(A, B, x[: t + 1]) for t in range(len(x))]).reshape(x.shape)
    return decode(*model, encode(*model, x), len(x))


def mean(x: np.ndarray) -> np.ndarray:
    return x.mean(axis=0) if len(x) else np.zeros(x.shape[1])


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    scale = np.linalg.norm(first) * np.linalg.norm(second)
    return float(first @ second / scale) if scale else 0.0
