"""The recipe of InterSent, which is built from an encoder and a decoder.

Legend: N = local items, M = items whose operation takes two sentences, R = sentences to encode for
the items, D = width of an embedding.
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
    write_encoder,
)
from sentune.training.settings import TrainingSettings, check_length
from sentune.training.trial import TrialSpec

ENCODER, DECODER = "encoder", "decoder"
STORED_APART = (f"{ENCODER}.", f"{DECODER}.")


class IntersentRecipe:
    """The ``Recipe`` of InterSent; ``folder`` is one written by ``prepare.bundle``.

    A model folder has the encoder and, in ``decoder/``, the decoder in Hugging Face's format, and
    operators and bridge in ``head.safetensors``.
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
        write_encoder(method, _part(source, ENCODER), folder, training.max_length, pooled=True)
        (folder / DECODER).mkdir()
        method.decoder.save(folder / DECODER)
        save_file(head_state(method, STORED_APART), folder / HEAD_FILE)

    def read(self, make: Callable[..., Intersent], folder: Path) -> Intersent:
        for part in (folder, folder / DECODER):
            require(part, *ENCODER_FILES)
        method = make(load(str(folder)), load_decoder(str(folder / DECODER)))
        load_head(method, folder / HEAD_FILE, STORED_APART)
        return method


def operation_encoder(folder: str, max_length: int) -> OperationEncoder:
    """Return the encoder from corpora of operations to the columns of batches."""
    return OperationEncoder(_part(folder, ENCODER), _part(folder, DECODER), max_length)


def _part(folder: str, name: str) -> str:
    """Return the folder of the encoder or the decoder; raise ``InvalidValue`` if it is missing."""
    part = Path(folder, name)
    if not part.is_dir():
        fix = f"name a folder with {ENCODER}/ and {DECODER}/, as written by prepare.bundle"
        raise InvalidValue(f"--{ENCODER}", folder, fix)
    return str(part)


class IntersentValidator(SentenceValidator):
    """Evaluates the operations and the other tasks of the development corpora."""

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
        """Return greedily decoded results of an operation on sentences.

        Results are decoded in batches of similar length of the first sentences.
        """
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
            for place, text in zip(places, method.decoder.tokenizer.texts(ids), strict=True):
                texts[place] = text
        return texts


SENTENCES = 3
"""Maximum sentences of an item."""


class Needed(NamedTuple):
    """The sentences to encode for the items of a worker.

    Attributes:
        rows: token ids of the R sentences.
        codes: [N] operations.
        first: [N] indices of the first sentences in ``rows``.
        second: [M] indices of the second sentences.
        target: [N] indices of the targets, or [0] if targets are not encoded.
    """

    rows: list[np.ndarray]
    codes: Tensor
    first: Tensor
    second: Tensor
    target: Tensor


def needed_rows(columns: Mapping[str, Rows], local: slice, *, targets: bool, merge: bool) -> Needed:
    """Return the sentences to encode for the items of a slice.

    Args:
        columns: columns of the global batch.
        local: slice of the items.
        targets: whether to encode the targets.
        merge: whether to encode equal sentences only once, which is exact without dropout.
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
    """A batch of targets to decode, their items, and the weights of their tokens."""

    chunk: Chunk
    items: Tensor
    weights: Tensor


class IntersentBackward:
    """Computes loss and gradient of InterSent; see ``sentune.training.recipes.base.Backward``.

    Only sentences that an operation needs are encoded. The decoder processes its targets in parts,
    each with its own backward pass, so that only one part's activations are in memory. If
    ``micro_batch`` is below the local share of the batch, the gradients of the encoder are cached
    too (GradCache); otherwise one graph has all sentences.
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
            # a worker without items takes part in the backward pass too, whose collective
            # operations need all workers
            encoder = self.method.encoder
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
        """Return Eq. 3 for embeddings [R, D] in the order of the chunks, after a backward pass.

        Each of the two terms is a local sum times world size / B, because averaging the gradients
        divides by the number of workers. If the gathered contrastive term and the generative term,
        which is not gathered, were scaled differently, alpha would change with the number of
        workers.
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
        """Return the local generative loss times ``factor``, and its gradient [N, D]."""
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
        """Return the local targets in batches of similar length."""
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
