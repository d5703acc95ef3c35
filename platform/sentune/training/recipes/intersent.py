"""How InterSent is built, trained, judged and kept: an encoder and a decoder side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from sentune.beats import beat
from sentune.corpora.encode import OperationEncoder
from sentune.corpora.schema import OPERATIONS
from sentune.encoders import load, load_tokenizer
from sentune.encoders.decoders import load_decoder
from sentune.errors import InvalidValue
from sentune.methods.intersent import Intersent
from sentune.tasks import Result, evaluate
from sentune.training.group import Group
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.recipes.base import Backward
from sentune.training.recipes.intersent_backward import IntersentBackward
from sentune.training.recipes.sentences import (
    HEAD_FILE,
    head_state,
    load_head,
    require,
    write_modules,
)
from sentune.training.settings import TrainingSettings, check_length
from sentune.training.trial import TrialSpec
from sentune.training.validation import Validator

ENCODER, DECODER = "encoder", "decoder"
STORED_APART = (f"{ENCODER}.", f"{DECODER}.")


class IntersentRecipe:
    """See ``sentune.training.recipes.base.Recipe``; folders are those of ``decoders.bundle``.

    A model folder has the encoder as Hugging Face reads it, ``decoder/`` likewise, and operators
    and bridge in ``head.safetensors``.
    """

    def table_encoder(self, folder: str, max_length: int) -> OperationEncoder:
        return OperationEncoder(_part(folder, ENCODER), _part(folder, DECODER), max_length)

    def build(
        self, make: Callable[..., Intersent], training: TrainingSettings, folder: str
    ) -> Intersent:
        encoder = load(_part(folder, ENCODER))
        decoder = load_decoder(_part(folder, DECODER))
        for name, part in ((ENCODER, encoder), (DECODER, decoder)):
            check_length(training.max_length, part.max_length, name)
        return make(encoder, decoder)

    def backward(
        self, method: Intersent, training: TrainingSettings, group: Group, folder: str
    ) -> Backward:
        pad_id = load_tokenizer(_part(folder, ENCODER)).pad_id
        return IntersentBackward(method, training, group, pad_id)

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> IntersentValidator:
        tokenizer = load_tokenizer(_part(spec.encoder, ENCODER))
        return IntersentValidator(spec.dev.open(), tokenizer, training, device)

    def write(
        self, method: Intersent, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        method.encoder.save(folder)
        load_tokenizer(_part(source, ENCODER)).save(folder)
        (folder / DECODER).mkdir()
        method.decoder.save(folder / DECODER)
        save_file(head_state(method, STORED_APART), folder / HEAD_FILE)
        write_modules(folder, method.encoder.width, method.settings.pooling, training.max_length)

    def read(self, make: Callable[..., Intersent], folder: Path) -> Intersent:
        for part in (folder, folder / DECODER):
            require(part, "model*.safetensors")
        method = make(load(str(folder)), load_decoder(str(folder / DECODER)))
        load_head(method, folder / HEAD_FILE, STORED_APART)
        return method


def _part(folder: str, name: str) -> str:
    """Return the encoder's or the decoder's folder; ``InvalidValue`` where it is not there."""
    part = Path(folder, name)
    if not part.is_dir():
        fix = f"name a folder with {ENCODER}/ and {DECODER}/, as decoders.bundle makes it"
        raise InvalidValue(f"--{ENCODER}", folder, fix)
    return str(part)


class IntersentValidator(Validator):
    """Carries out the operations of the development corpora, and poses their other tasks."""

    def _evaluate(self, method: Intersent) -> Result:
        embed, generate = partial(self.embed, method), partial(self.generate, method)
        return evaluate(self._tasks, embed, method.geometry, generate=generate)

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
