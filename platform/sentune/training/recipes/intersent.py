"""How InterSent is built, trained, judged and kept: an encoder and a decoder side by side.

Legend: N = local items, M = those of operations that take two sentences, R = sentences that they
need, D = width of an embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from sentune.beats import beat
from sentune.corpora.encode import OperationEncoder
from sentune.corpora.schema import OPERATIONS
from sentune.encoders import Chunk, length_sorted_chunks, load, load_tokenizer
from sentune.encoders.decoders import load_decoder
from sentune.errors import InvalidValue
from sentune.methods.intersent import PAIR_CODES, Intersent
from sentune.tasks import Result, evaluate
from sentune.training.gradients import cached_backward, densify_gradients
from sentune.training.group import Group
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.recipes.base import Backward, Rows, Tasks
from sentune.training.recipes.sentences import (
    ENCODER_FILES,
    HEAD_FILE,
    SentenceValidator,
    distinct_rows,
    head_state,
    load_head,
    require,
    write_modules,
)
from sentune.training.settings import TrainingSettings, check_length
from sentune.training.trial import TrialSpec

ENCODER, DECODER = "encoder", "decoder"
STORED_APART = (f"{ENCODER}.", f"{DECODER}.")


class IntersentRecipe:
    """See ``sentune.training.recipes.base.Recipe``; folders are those of ``decoders.bundle``.

    A model folder has the encoder as Hugging Face reads it, ``decoder/`` likewise, and operators
    and bridge in ``head.safetensors``.
    """

    def build(
        self, make: Callable[..., Intersent], training: TrainingSettings, folder: str
    ) -> Intersent:
        encoder = load(_part(folder, ENCODER))
        decoder = load_decoder(_part(folder, DECODER))
        for name, part in ((ENCODER, encoder), (DECODER, decoder)):
            check_length(training.max_length, part.max_length, name)
        method = make(encoder, decoder)
        load_tokenizer(_part(folder, ENCODER)).check_pooling(method.settings.pooling)
        return method

    def backward(
        self, method: Intersent, training: TrainingSettings, group: Group, folder: str
    ) -> Backward:
        pad_id = load_tokenizer(_part(folder, ENCODER)).pad_id
        return IntersentBackward(method, training, group, pad_id)

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> IntersentValidator:
        tokenizer = load_tokenizer(_part(spec.encoder, ENCODER))
        return IntersentValidator(spec, training, device, tokenizer)

    def write(
        self, method: Intersent, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        method.encoder.save(folder)
        load_tokenizer(_part(source, ENCODER)).save(folder, training.max_length)
        (folder / DECODER).mkdir()
        method.decoder.save(folder / DECODER)
        save_file(head_state(method, STORED_APART), folder / HEAD_FILE)
        write_modules(folder, method.encoder.width, method.settings.pooling)

    def read(self, make: Callable[..., Intersent], folder: Path) -> Intersent:
        for part in (folder, folder / DECODER):
            require(part, *ENCODER_FILES)
        method = make(load(str(folder)), load_decoder(str(folder / DECODER)))
        load_head(method, folder / HEAD_FILE, STORED_APART)
        return method


def operation_encoder(folder: str, max_length: int) -> OperationEncoder:
    """Return what turns a corpus of operations into the columns of batches."""
    return OperationEncoder(_part(folder, ENCODER), _part(folder, DECODER), max_length)


def _part(folder: str, name: str) -> str:
    """Return the encoder's or the decoder's folder; ``InvalidValue`` where it is not there."""
    part = Path(folder, name)
    if not part.is_dir():
        fix = f"name a folder with {ENCODER}/ and {DECODER}/, as decoders.bundle makes it"
        raise InvalidValue(f"--{ENCODER}", folder, fix)
    return str(part)


class IntersentValidator(SentenceValidator):
    """Carries out the operations of the development corpora, and poses their other tasks."""

    def _evaluate(self, method: Intersent, tasks: Tasks) -> Result:
        embed, generate = partial(self.embed, method), partial(self.generate, method)
        return evaluate(tasks, embed, method.geometry, generate=generate)

    @torch.inference_mode()
    def generate(
        self,
        method: Intersent,
        operation: str,
        first: Sequence[str],
        second: Sequence[str] | None,
    ) -> list[str]:
        """Greedily decoded results; sentences of like length are decoded together."""
        if not first:
            return []
        embeddings = self.embed(method, first)
        others = embeddings[:0] if second is None else self.embed(method, second)
        codes = torch.full((len(first),), OPERATIONS.index(operation), device=self._device)
        outputs: Tensor = method.operate(codes, embeddings, others)
        rows = self._tokenise(first)
        order = np.argsort([-len(row) for row in rows], kind="stable")
        texts: list[str] = [""] * len(order)
        size = sentences_at_a_time(self._device)
        for at in range(0, len(order), size):
            beat("decoding", done=at, total=len(order))
            places = order[at : at + size]
            with autocast(self._settings.precision, self._device):
                ids = method.decode(outputs[places], max_length=self._settings.max_length)
            for place, text in zip(places, method.decoder.texts(ids), strict=True):
                texts[place] = text
        return texts


SENTENCES = 3  # that an item has at most


class Needed(NamedTuple):
    """Sentences to encode, as token ids, operations of the items [N], and places among the
    sentences: of the first ones [N], of the second ones of the operations that take two [M], and of
    the targets [N], [0] where none are needed."""

    rows: list[np.ndarray]
    codes: Tensor
    first: Tensor
    second: Tensor
    target: Tensor


def needed_rows(columns: Mapping[str, Rows], local: slice, *, targets: bool, merge: bool) -> Needed:
    """Return what the items of a slice need, in the order in which it is first asked for.

    Args:
        columns: of the global batch.
        local: the items.
        targets: whether target embeddings are needed.
        merge: encode equal sentences once, which changes nothing without dropout.
    """
    codes = [int(row[0]) for row in columns["operation"][local]]
    pairs = zip(codes, columns["second"][local], strict=True)
    parts = (
        columns["first"][local],
        [row for code, row in pairs if code in PAIR_CODES],
        columns["target"][local] if targets else [],
    )
    rows = [row for part in parts for row in part]
    rows, places = distinct_rows(rows) if merge else (rows, torch.arange(len(rows)))
    first, second, target = torch.split(places, [len(part) for part in parts])
    return Needed(rows, torch.tensor(codes, dtype=torch.long), first, second, target)


class _Decoded(NamedTuple):
    """Targets that go through the decoder together, their items, and their tokens' weights."""

    chunk: Chunk
    items: Tensor
    weights: Tensor


class IntersentBackward:
    """See ``sentune.training.recipes.base.Backward``.

    Only what an operation needs is encoded. The decoder works through its targets in parts, each
    with its own backward pass, so that one part's activations are in memory at a time. With
    ``micro_batch`` below the local share of the batch the encoder's gradients are cached as well
    (GradCache); without it one graph holds all sentences.
    """

    def __init__(
        self, method: Intersent, training: TrainingSettings, group: Group, pad_id: int
    ) -> None:
        self.method, self._training, self._group, self._pad_id = method, training, group, pad_id
        method.encoder.sparse_gradients(on=group.device.type == "cpu")
        group.send_parameters(method)

    def __call__(self, columns: Mapping[str, Rows]) -> Tensor:
        total = len(columns["first"])
        local = self._group.slice(total)
        settings = self.method.settings
        needed = needed_rows(
            columns,
            local,
            targets=settings.contrastive_weight > 0,
            merge=not self.method.encoder.drops_out(),
        )
        decoded = self._decoded(columns["decoded"], local) if settings.alpha else []
        micro = self._training.micro_batch
        device = self._group.device
        size = micro * SENTENCES if micro else sentences_at_a_time(device)
        chunks, restore = length_sorted_chunks(needed.rows, size, self._pad_id, device.type)
        objective = partial(
            self._objective, needed=needed, restore=restore, decoded=decoded, total=total
        )
        if micro is not None and micro < len(needed.codes) and settings.train_encoder:
            value = cached_backward(self._embed, chunks, objective)
        elif chunks:
            value = objective(torch.cat([self._embed(chunk) for chunk in chunks]))
        else:
            # a worker without items takes part in the backward pass too: the other workers'
            # gradients of its (missing) rows are summed there
            encoder, device = self.method.encoder, self._group.device
            none = torch.zeros(0, encoder.width, dtype=encoder.dtype, device=device)
            value = objective(none.requires_grad_(settings.train_encoder))
        densify_gradients(self.method.parameters())
        self._group.average_gradients(self.method.parameters())
        return value

    def _embed(self, chunk: Chunk) -> Tensor:
        with autocast(self._training.precision, self._group.device):
            return self.method.embed(*chunk.to(self._group.device))

    def _objective(
        self,
        embeddings: Tensor,
        *,
        needed: Needed,
        restore: Tensor,
        decoded: Sequence[_Decoded],
        total: int,
    ) -> Tensor:
        """Eq. 3 of embeddings [R, D] in the chunks' order; leaves gradients behind.

        Both terms are local sums at the same scale. Averaging the workers' gradients divides by
        their number, so each term is a local sum times world size / B. A gathered term that were
        scaled otherwise than the generative one, which is not gathered, would change alpha with the
        number of workers.
        """
        settings, scale, device = self.method.settings, self._group.world_size, self._group.device
        codes, first, second, target = (part.to(device) for part in needed[1:])
        ordered = embeddings[restore.to(device)]
        outputs = self.method.operate(codes, ordered[first], ordered[second])
        roots: list[tuple[Tensor, Tensor | None]] = []
        value = embeddings.new_zeros(())
        if decoded:
            value, gradient = self._generative(outputs, decoded, settings.alpha * scale)
            roots.append((outputs, gradient))
        if settings.contrastive_weight:
            gather = partial(self._group.gather, rows=total)
            contrastive = self.method.contrastive(
                outputs, ordered[target], gather, self._group.offset(total)
            ) * (settings.contrastive_weight * scale / total)
            value = value + contrastive.detach()
            roots.append((contrastive, None))
        roots = [root for root in roots if root[0].requires_grad]
        if roots:
            tensors, gradients = zip(*roots, strict=True)
            torch.autograd.backward(tensors, gradients)
        return value

    def _generative(
        self, outputs: Tensor, decoded: Sequence[_Decoded], factor: float
    ) -> tuple[Tensor, Tensor]:
        """The local part of the generative loss times ``factor``, and its gradient [N, D]."""
        leaf = outputs.detach().requires_grad_()
        value = leaf.new_zeros(())
        for part in decoded:
            with autocast(self._training.precision, self._group.device):
                loss = self.method.generative(leaf[part.items], *part.chunk, part.weights)
            torch.autograd.backward(loss * factor)
            value = value + loss.detach() * factor
        assert leaf.grad is not None
        return value, leaf.grad

    def _decoded(self, rows: Rows, local: slice) -> list[_Decoded]:
        """Return the local targets in parts of like length."""
        device, decoder = self._group.device, self.method.decoder
        lengths = torch.tensor([len(row) - decoder.given for row in rows])
        weights = self.method.token_weights(lengths)[local]
        size = self._training.micro_batch or sentences_at_a_time(device)
        chunks, restore = length_sorted_chunks(rows[local], size, decoder.pad_id, device.type)
        items = torch.argsort(restore)
        places = torch.split(items, [len(chunk.input_ids) for chunk in chunks])
        return [
            _Decoded(chunk.to(device), place.to(device), weights[place].to(device))
            for chunk, place in zip(chunks, places, strict=True)
        ]
