"""Methods that embed sentences and compare them: SimCSE, GaussCSE, GumbelCSE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sentune.corpora.encode import Encoder
from sentune.encoders import Chunk, length_sorted_chunks, load, load_tokenizer
from sentune.errors import InvalidValue
from sentune.methods import MethodSettings, SentenceMethod
from sentune.training.gradcache import cached_backward
from sentune.training.group import Group
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.sentence_transformers import write_modules
from sentune.training.settings import TrainingSettings
from sentune.training.step import Backward, Rows
from sentune.training.trial import TrialSpec
from sentune.training.validation import Validator

HEAD_FILE = "head.safetensors"
ENCODER_PREFIX = "encoder."


class Sentences:
    """See ``sentune.training.recipes.base.Recipe``."""

    def table_encoder(self, folder: str, max_length: int) -> Encoder:
        """Every sentence column, by the encoder's tokenizer."""
        return Encoder(folder, max_length)

    def build(
        self,
        kind: type[SentenceMethod],
        settings: MethodSettings,
        training: TrainingSettings,
        folder: str,
    ) -> SentenceMethod:
        """Return the method on the encoder of the folder."""
        encoder = load(folder)
        if training.max_length > encoder.max_length:
            fix = f"the encoder takes at most {encoder.max_length} tokens"
            raise InvalidValue("max_length", training.max_length, fix)
        return kind(encoder, settings)

    def backward(
        self, method: SentenceMethod, training: TrainingSettings, group: Group, folder: str
    ) -> Backward:
        """Return the pass that embeds every role, then takes the method's loss."""
        return SentenceBackward(method, training, group, load_tokenizer(folder).pad_id)

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> Validator:
        """Return the validator that embeds the sentences of the development corpora."""
        return Validator(
            spec.dev.open(),
            load_tokenizer(spec.encoder),
            training,
            device,
            spec.references.open() if spec.references is not None else None,
            spec.readouts,
        )

    def write(
        self, method: SentenceMethod, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        """The encoder as Hugging Face reads it, and the head."""
        method.encoder.save(folder)
        load_tokenizer(source).save(folder)
        head = head_state(method)
        if head:
            save_file(head, folder / HEAD_FILE)
        if method.name.startswith("simcse"):
            pooling = method.settings.pooling
            write_modules(folder, method.encoder.width, pooling, training.max_length)

    def read(
        self,
        kind: type[SentenceMethod],
        settings: MethodSettings,
        training: TrainingSettings,
        folder: Path,
    ) -> SentenceMethod:
        """Encoder and head; absent weights must never become random ones."""
        del training
        if not any(folder.glob("model*.safetensors")):
            raise InvalidValue("model", str(folder), "it is no model, without model.safetensors")
        method = kind(load(str(folder)), settings)
        load_head(method, folder)
        return method


def head_state(
    method: nn.Module, prefixes: tuple[str, ...] = (ENCODER_PREFIX,)
) -> dict[str, Tensor]:
    """Return the weights that are stored elsewhere under none of the prefixes."""
    state = method.state_dict()
    return {k: v.contiguous() for k, v in state.items() if not k.startswith(prefixes)}


def load_head(
    method: nn.Module, folder: Path, prefixes: tuple[str, ...] = (ENCODER_PREFIX,)
) -> None:
    """Put the head's weights into the method.

    Raises:
        InvalidValue: they are missing, or of another method.
    """
    wanted = head_state(method, prefixes)
    head = folder / HEAD_FILE
    if wanted and not head.is_file():
        raise InvalidValue("model", str(folder), f"it is no model, without {HEAD_FILE}")
    found = load_file(head) if wanted else {}
    if found.keys() != wanted.keys() or any(found[k].shape != wanted[k].shape for k in wanted):
        raise InvalidValue("model", str(folder), f"{HEAD_FILE} does not fit its method")
    method.load_state_dict(found, strict=False)


class _Part(NamedTuple):
    """Sentences that are embedded together; the first ones of a shard name it."""

    chunk: Chunk
    shard: int | None


class SentenceBackward:
    """See ``sentune.training.step.Backward``.

    With ``micro_batch`` below the local share of the batch the gradients are cached, so memory is
    bounded by the micro-batch; without it one autograd graph holds all sentences. Either way
    sentences of like length are embedded together, which changes no loss, only the padding.
    """

    def __init__(
        self, method: SentenceMethod, settings: TrainingSettings, group: Group, pad_id: int
    ) -> None:
        self.method, self._settings = method, settings
        self._group, self._pad_id = group, pad_id
        self._parallel = _parallel(method, group)

    def __call__(self, columns: Mapping[str, Rows]) -> Tensor:
        total = len(next(iter(columns.values())))
        parts, restore = self._parts(columns, total)
        loss = partial(self._loss, restore=restore.to(self._group.device), total=total)
        micro = self._settings.micro_batch
        if micro is not None and micro < self._group.sizes(total)[self._group.rank]:
            return self._cached(parts, loss)
        value = loss(torch.cat([self._embed(part) for part in parts]))
        value.backward()
        return value.detach()

    def _parts(self, columns: Mapping[str, Rows], total: int) -> tuple[list[_Part], Tensor]:
        """What is embedded at a time, shard by shard, and the way back to role by role.

        A shard is cut in the same way whichever worker has it, or dropout would draw other masks.
        """
        roles, micro = self.method.roles, self._settings.micro_batch
        parts: list[_Part] = []
        order, start = [], self._group.offset(total)
        first, local = start, self._group.sizes(total)[self._group.rank]
        for shard, count in self._group.own_shards(total):
            rows = [r for name in roles.values() for r in columns[name][start : start + count]]
            size = sentences_at_a_time(self._group.device)
            if micro is not None and micro < count:
                size = micro * len(roles)
            chunks, restore = length_sorted_chunks(rows, size, self._pad_id)
            parts += [_Part(chunk, None if at else shard) for at, chunk in enumerate(chunks)]
            places = torch.arange(count) + (start - first)
            every = torch.cat([places + role * local for role in range(len(roles))])
            order.append(every[torch.argsort(restore)])
            start += count
        return parts, torch.argsort(torch.cat(order))

    def _cached(self, chunks: Sequence[_Part], loss: Callable[[Tensor], Tensor]) -> Tensor:
        parallel = self._parallel
        no_sync = parallel.no_sync if isinstance(parallel, DistributedDataParallel) else nullcontext
        return cached_backward(self._embed, chunks, loss, no_sync=no_sync)

    def _embed(self, part: _Part) -> Tensor:
        if part.shard is not None:
            self._group.streams.use(part.shard)
        with autocast(self._settings.precision, self._group.device):
            return self._parallel(*part.chunk.to(self._group.device))

    def _loss(self, embeddings: Tensor, *, restore: Tensor, total: int) -> Tensor:
        """Local part of the mean loss, times the world size that averaging gradients divides by."""
        parts = embeddings[restore].chunk(len(self.method.roles))
        value = self.method.loss(
            dict(zip(self.method.roles, parts, strict=True)),
            partial(self._group.gather, rows=total),
            self._group.offset(total),
        )
        return value * (self._group.world_size / total)


def _parallel(method: SentenceMethod, group: Group) -> nn.Module:
    if group.world_size == 1:
        return method
    devices = [group.device] if group.device.type == "cuda" else None
    return DistributedDataParallel(method, device_ids=devices, broadcast_buffers=False)
