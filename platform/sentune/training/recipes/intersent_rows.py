"""Which sentences of a batch of operations have to be encoded, and where their embeddings go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sentune.methods.intersent import PAIR_CODES
from sentune.training.step import Rows


@dataclass(frozen=True, kw_only=True)
class Needed:
    """Sentences to encode; the tensors hold places among them.

    Attributes:
        rows: token ids of each.
        codes: [N] operations of the items.
        first: [N] of the items' first sentences.
        second: [M] of the second sentences of the operations that take two.
        target: [N] of the targets; [0] where no targets are needed.
    """

    rows: list[np.ndarray]
    codes: Tensor
    first: Tensor
    second: Tensor
    target: Tensor

    def to(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Codes, first, second and target on another device."""
        parts = (self.codes, self.first, self.second, self.target)
        first, second, third, fourth = (part.to(device) for part in parts)
        return first, second, third, fourth


def needed_rows(columns: Mapping[str, Rows], local: slice, *, targets: bool, merge: bool) -> Needed:
    """What the items of a slice need.

    Args:
        columns: of the global batch.
        local: the items.
        targets: whether target embeddings are needed.
        merge: encode equal sentences once, such as both sides of a reconstruction: the same
            where nothing is dropped out.
    """
    codes = [int(row[0]) for row in columns["operation"][local]]
    places = _Places(merge)
    first = [places.of(row) for row in columns["first"][local]]
    pairs = zip(codes, columns["second"][local], strict=True)
    second = [places.of(row) for code, row in pairs if code in PAIR_CODES]
    target = [places.of(row) for row in columns["target"][local]] if targets else []
    return Needed(
        rows=places.rows,
        codes=_tensor(codes),
        first=_tensor(first),
        second=_tensor(second),
        target=_tensor(target),
    )


class _Places:
    """Sentences in the order in which they were first asked for."""

    def __init__(self, merge: bool) -> None:
        self.rows: list[np.ndarray] = []
        self._merge = merge
        self._known: dict[bytes, int] = {}

    def of(self, row: np.ndarray) -> int:
        """Return the place of the sentence, a new one if it is new."""
        place = len(self.rows)
        if self._merge:
            place = self._known.setdefault(np.asarray(row).tobytes(), place)
        if place == len(self.rows):
            self.rows.append(row)
        return place


def _tensor(numbers: Sequence[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long)
