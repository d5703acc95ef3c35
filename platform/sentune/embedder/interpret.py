"""Interpretations of a sentence by a model of boxes, shown by their reference sentences.

GumbelCSE section 3.2: an interpretation of a sentence is the overlap of its box with the box of a
reference sentence, if the coverage is within limits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sentune.embedder.encode import Encoding, listed
from sentune.errors import InvalidValue
from sentune.geometry.boxes import Boxes
from sentune.geometry.interpretations.distinct import Distinct, most_distinct

TASKS = ("ambiguous-rte", "csts")
"""Tasks whose readouts are used; the first that the model has readouts of."""


@dataclass(frozen=True)
class Interpretation:
    """One interpretation of a sentence.

    Attributes:
        reference: reference sentence that the overlap is with.
        coverage: share of the sentence's box that the overlap covers, in [0, 1].
        similarity: similarity to the most similar of the other interpretations (Eq. 16), in [0, 1];
            NaN for a single interpretation.
    """

    reference: str
    coverage: float
    similarity: float


@dataclass(frozen=True, kw_only=True)
class Interpreted(Distinct):
    """The interpretations of a sentence.

    Attributes:
        interpretations: in the order in which they were chosen.
        references: number of reference sentences, without the sentence itself.
    """

    interpretations: list[Interpretation]
    references: int


def interpret(
    model: Encoding,
    sentence: str,
    k: int,
    references: Sequence[str] | None = None,
    alpha_1: float | None = None,
    alpha_2: float | None = None,
) -> Interpreted:
    """Return the ``k`` most distinct interpretations of a sentence, or all if there are fewer.

    The alphas and the intersection are the model's readouts of ambiguous entailment, else of C-STS.
    Without them, alpha_2 is 1, and alpha_1 is set for each sentence such that the 3 k references
    with the largest coverage are candidates.

    The sentence itself, compared without case and punctuation, is no reference. The arguments are
    those of ``Embedder.interpretations``.

    Raises:
        InvalidValue: the model has no boxes, there are no references, k is below 1, or alpha_1 is
            not below alpha_2.
    """
    (sentence,) = listed([sentence], "sentence")
    geometry = model.geometry
    if not isinstance(geometry, Boxes):
        fix = "only a model of boxes (gumbel) has interpretations"
        raise InvalidValue("model", type(geometry).__name__.lower(), fix)
    tasks = (task for task in TASKS if model.readouts.get(f"{task}/alpha_1") is not None)
    prefix = f"{next(tasks, 'none of them')}/"
    own = {n.removeprefix(prefix): v for n, v in model.readouts.items() if n.startswith(prefix)}
    texts, embeddings = _others(model, sentence, references)
    embedding = model.embed([sentence])[0]
    found = most_distinct(
        replace(geometry, intersection=own.get("intersection", geometry.intersection)),
        embedding,
        embeddings.to(embedding.device),
        k,
        own.get("alpha_1") if alpha_1 is None else alpha_1,
        own.get("alpha_2", 1.0) if alpha_2 is None else alpha_2,
    )
    chosen = [Interpretation(texts[c.row], c.coverage, c.similarity) for c in found.chosen]
    return Interpreted(**vars(found), interpretations=chosen, references=len(texts))


def _others(
    model: Encoding, sentence: str, references: Sequence[str] | None
) -> tuple[list[str], Tensor]:
    """Return the distinct references without the sentence itself, and their embeddings."""
    own = _plain(sentence)
    if references is not None:
        given = listed(references, "references")
        texts = [text for text in dict.fromkeys(given) if _plain(text) != own]
        if not texts:
            fix = "give reference sentences other than the sentence itself"
            raise InvalidValue("references", f"{len(given)} sentences", fix)
        return texts, model.embed(texts)
    stored = model.references
    kept = enumerate(stored.sentences) if stored is not None else ()
    rows = [row for row, text in kept if _plain(text) != own]
    if stored is None or not rows:
        fix = "the model stores none; give reference sentences (--references FORMAT:PATH)"
        raise InvalidValue("references", "", fix)
    return [stored.sentences[row] for row in rows], stored.embeddings[torch.tensor(rows)]


def _plain(sentence: str) -> str:
    """Return the sentence in lower case without punctuation and extra white space."""
    return " ".join(re.sub(r"[^\w\s]", "", sentence).casefold().split())
