"""How InterSent is built, trained, judged and kept: an encoder and a decoder side by side."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from sentune.corpora.encode import OperationEncoder
from sentune.encoders import load, load_tokenizer
from sentune.encoders.decoders import load_decoder
from sentune.errors import InvalidValue
from sentune.methods.intersent import Intersent, IntersentSettings
from sentune.training.group import Group
from sentune.training.recipes.intersent_backward import IntersentBackward
from sentune.training.recipes.intersent_validation import IntersentValidator
from sentune.training.recipes.sentences import HEAD_FILE, head_state, load_head
from sentune.training.sentence_transformers import write_modules
from sentune.training.settings import TrainingSettings
from sentune.training.step import Backward
from sentune.training.trial import TrialSpec

ENCODER, DECODER = "encoder", "decoder"
STORED_APART = (f"{ENCODER}.", f"{DECODER}.")


class IntersentRecipe:
    """See ``sentune.training.recipes.base.Recipe``; folders are those of ``decoders.bundle``."""

    def table_encoder(self, folder: str, max_length: int) -> OperationEncoder:
        """Sentences by the encoder's tokenizer, targets by the decoder's as well."""
        return OperationEncoder(_part(folder, ENCODER), _part(folder, DECODER), max_length)

    def build(
        self,
        kind: type[Intersent],
        settings: IntersentSettings,
        training: TrainingSettings,
        folder: str,
    ) -> Intersent:
        """Return the method on the encoder and the decoder of the folder."""
        encoder = load(_part(folder, ENCODER))
        decoder = load_decoder(_part(folder, DECODER))
        for name, part in ((ENCODER, encoder), (DECODER, decoder)):
            if training.max_length > part.max_length:
                fix = f"the {name} takes at most {part.max_length} tokens"
                raise InvalidValue("max_length", training.max_length, fix)
        return kind(encoder, decoder, settings)

    def backward(
        self, method: Intersent, training: TrainingSettings, group: Group, folder: str
    ) -> Backward:
        """Return the pass that encodes what the operations need, then takes Eq. 3."""
        pad_id = load_tokenizer(_part(folder, ENCODER)).pad_id
        return IntersentBackward(method, training, group, pad_id)

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> IntersentValidator:
        """Carries out the operations of the development corpora."""
        return IntersentValidator(
            spec.dev.open(),
            load_tokenizer(_part(spec.encoder, ENCODER)),
            training,
            device,
        )

    def write(
        self, method: Intersent, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        """The encoder as Hugging Face reads it, ``decoder/`` likewise, operators and bridge."""
        method.encoder.save(folder)
        load_tokenizer(_part(source, ENCODER)).save(folder)
        (folder / DECODER).mkdir()
        method.decoder.save(folder / DECODER)
        save_file(head_state(method, STORED_APART), folder / HEAD_FILE)
        write_modules(folder, method.encoder.width, method.settings.pooling, training.max_length)

    def read(
        self,
        kind: type[Intersent],
        settings: IntersentSettings,
        training: TrainingSettings,
        folder: Path,
    ) -> Intersent:
        """Encoder, decoder and head; absent weights must never become random ones."""
        del training
        for part in (folder, folder / DECODER):
            if not any(part.glob("model*.safetensors")):
                fix = "it is no model, without model.safetensors"
                raise InvalidValue("model", str(part), fix)
        method = kind(load(str(folder)), load_decoder(str(folder / DECODER)), settings)
        load_head(method, folder, STORED_APART)
        return method


def _part(folder: str, name: str) -> str:
    """Return the encoder's or the decoder's folder.

    Raises:
        InvalidValue: it is not there.
    """
    part = Path(folder, name)
    if not part.is_dir():
        fix = f"name a folder with {ENCODER}/ and {DECODER}/, as decoders.bundle makes it"
        raise InvalidValue(f"--{ENCODER}", folder, fix)
    return str(part)
