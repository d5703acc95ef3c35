"""The interpretations that a model of boxes gives a sentence, as reference sentences.

GumbelCSE section 3.2: an interpretation of a sentence is the overlap of its box with the box of a
reference sentence, neither too small nor the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sentune.embedder.encode import Comparing, listed
from sentune.errors import InvalidValue
from sentune.geometry.boxes import Boxes
from sentune.geometry.interpretations.distinct import Distinct, most_distinct

# The tasks whose readouts are taken, the first that the model was tuned to.
TASKS = ("ambiguous-rte", "csts")


@dataclass(frozen=True)
class Interpretation:
    """One interpretation of a sentence.

    Attributes:
        reference: the sentence whose overlap with the other one is the interpretation.
        coverage: the share of the sentence's box that the overlap takes, in [0, 1].
        similarity: of the overlap to the most similar of the other ones (Eq. 16), in [0, 1]; NaN
            for a single one.
    """

    reference: str
    coverage: float
    similarity: float


@dataclass(frozen=True, kw_only=True)
class Interpreted(Distinct):
    """The interpretations of a sentence, and what they were chosen from.

    Attributes:
        interpretations: the one that covers most of the sentence first.
        references: how many reference sentences were looked at, the sentence itself left out.
    """

    interpretations: list[Interpretation]
    references: int


def interpret(
    model: Comparing,
    sentence: str,
    k: int,
    references: Sequence[str] | None = None,
    alpha_1: float | None = None,
    alpha_2: float | None = None,
) -> Interpreted:
    """Return the ``k`` most distinct interpretations of a sentence, or all if there are fewer.

    The alphas and the intersection are those that the model was tuned to on ambiguous entailment,
    else on C-STS. A model without them takes alpha_2 = 1, and alpha_1 for each sentence such that
    the 3 k references that cover most of it are in question.

    Args:
        references: sentences in place of those that are stored with the model. The sentence
            itself, whatever its case and punctuation, is left out.
        alpha_1, alpha_2: in place of the model's own.

    Raises:
        InvalidValue: the model has no boxes, there are no references, k is below 1, or alpha_1 is
            not below alpha_2.
    """
    geometry = model.geometry
    if not isinstance(geometry, Boxes):
        fix = "only a model of boxes (gumbel) has interpretations"
        raise InvalidValue("model", type(geometry).__name__.lower(), fix)
    own = _readouts(model.readouts)
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


def _readouts(readouts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the readouts of the first task that has an alpha_1, without the task's name."""
    for task in TASKS:
        if readouts.get(f"{task}/alpha_1") is not None:
            own = f"{task}/"
            return {k.removeprefix(own): v for k, v in readouts.items() if k.startswith(own)}
    return {}


def _others(
    model: Comparing, sentence: str, references: Sequence[str] | None
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
        fix = "the model has none of its own; give reference sentences (--references FORMAT:PATH)"
        raise InvalidValue("references", None, fix)
    return [stored.sentences[row] for row in rows], stored.embeddings[torch.tensor(rows)]


def _plain(sentence: str) -> str:
    """Return the words alone, in one case."""
    return " ".join(re.sub(r"[^\w\s]", "", sentence).casefold().split())
