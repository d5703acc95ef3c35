"""Decoders from a vector to a sentence: BART, T5, BERT and a small built-in one.

Legend: N = sentences, L = tokens of the longest of them, D = width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sentune.encoders.tokenizing import DecoderTokenizer
from sentune.encoders.transformer import (
    most_tokens,
    no_progress_bars,
    read_config,
    read_weights,
    require_all,
)
from sentune.errors import InvalidValue
from sentune.lazy_import import transformers

_ENCODER = ("encoder.", "model.encoder.")  # weights that are not used
_DRAWN = ("cross", "cls.", "lm_head")  # weights that an encoder such as BERT lacks


class Decoder(nn.Module):
    """A Hugging Face decoder whose cross-attention sees one vector (InterSent section 2.3).

    See ``load_decoder``. ``start_id`` is the id of the token that starts a sentence.

    Attributes:
        width: D of the input vectors.
        max_length: maximum number of tokens of a sentence, special tokens included.
        given: number of leading tokens of a tokenised sentence that are not predicted: 1 if the
            tokenizer itself begins with ``start_id`` (BERT), else 0 (T5, BART).
    """

    def __init__(self, model: Any, tokenizer: DecoderTokenizer, start_id: int) -> None:
        super().__init__()
        self.model: Any = model
        self.tokenizer, self.start_id = tokenizer, start_id
        self.pad_id, self.end_id = tokenizer.pad_id, tokenizer.end_id
        self.given = int(tokenizer.leads and start_id == tokenizer.start_id)
        self.width: int = model.config.hidden_size
        self.max_length: int = most_tokens(model) or 512
        self._encoder_decoder: bool = model.config.is_encoder_decoder
        # override a checkpoint's generation settings (bart-large-cnn: 4 beams, at least 56 tokens),
        # which would be the defaults of every call
        model.generation_config = transformers.GenerationConfig()

    def predicted(self, mask: Tensor) -> Tensor:
        """Return the mask of the tokens that count in the loss, [N, L], from that of all tokens."""
        return F.pad(mask[:, self.given :], (self.given, 0))

    def loss_per_token(self, memory: Tensor, decoded: Tensor, mask: Tensor) -> Tensor:
        """Return negative log-likelihoods -log p(t_k | t_<k, v) of the tokens, InterSent Eq. 2.

        Args:
            memory: [N, D] vectors.
            decoded: [N, L] ids of the tokenizer, padded on the right.
            mask: [N, L], 1 on tokens and 0 on padding.

        Returns:
            [N, L], 0 on padding and on given tokens; float32 under autocast.
        """
        inputs, labels = decoded[:, :-1], decoded[:, self.given :]
        if not self.given:
            inputs = F.pad(inputs, (1, 0), value=self.start_id)
        # logits [N, L, vocabulary]; causal attention needs no mask, because padding comes last
        ids = {"decoder_input_ids" if self._encoder_decoder else "input_ids": inputs}
        logits: Tensor = self.model(**self._memory(memory), **ids, use_cache=False).logits
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        losses = F.pad(losses, (self.given, 0))
        return losses * self.predicted(mask).to(losses.dtype)

    @torch.no_grad()
    def generate(
        self, memory: Tensor, beams: int = 1, max_length: int | None = None
    ) -> list[list[int]]:
        """Return the token ids of the most likely sentences; the tokenizer decodes them.

        Args:
            memory: [N, D] vectors.
            beams: number of beams of the beam search; 1 is greedy search.
            max_length: maximum number of tokens, start included, at least 2; None: the model's.

        Returns:
            N lists of ids, without start, end and padding.
        """
        if not len(memory):
            return []
        longest = min(max_length or self.max_length, self.max_length) - 1
        settings = transformers.GenerationConfig(
            max_new_tokens=longest,
            num_beams=beams,
            do_sample=False,
            pad_token_id=self.pad_id,
            eos_token_id=self.end_id,
            bos_token_id=self.start_id,
            decoder_start_token_id=self.start_id,
        )
        found = self.model.generate(generation_config=settings, **self._prompt(memory))
        return [self._sentence(row) for row in found[:, 1:].tolist()]

    def _memory(self, memory: Tensor) -> dict[str, Any]:
        """Return the model's arguments for vectors [N, D] as the states of one-token inputs."""
        states = memory.unsqueeze(1)
        if not self._encoder_decoder:
            return {"encoder_hidden_states": states}
        outputs = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=states)
        return {"encoder_outputs": outputs}

    def _prompt(self, memory: Tensor) -> dict[str, Any]:
        """Return the arguments of ``generate`` for vectors [N, D]."""
        if self._encoder_decoder:
            return self._memory(memory)
        start = torch.full((len(memory), 1), self.start_id, device=memory.device)
        # BERT's layers expect a cache of cross-attention, which the library does not create itself
        caches = [transformers.DynamicCache(config=self.model.config) for _ in range(2)]
        return {
            **self._memory(memory),
            "input_ids": start,
            "attention_mask": torch.ones_like(start),
            "past_key_values": transformers.EncoderDecoderCache(*caches),
        }

    def _sentence(self, ids: list[int]) -> list[int]:
        end = ids.index(self.end_id) if self.end_id in ids else len(ids)
        return [token for token in ids[:end] if token not in (self.pad_id, self.start_id)]

    def save(self, folder: Path) -> None:
        """Write config, weights (safetensors) and tokenizer as ``load_decoder`` reads them."""
        with no_progress_bars():
            self.model.save_pretrained(folder)
        self.tokenizer.save(folder)


def load_decoder(path: str) -> Decoder:
    """Load the decoder of a folder from ``prepare_decoder``, in float32.

    Of an encoder-decoder (BART, T5), the decoder and the output layer are used. An encoder (BERT)
    or a language model gets cross-attention, initialised from torch's global generator if the
    folder has none. A folder without any weights is a decoder to train from scratch.

    Raises:
        InvalidValue: the config or weights are missing, the weights are no safetensors, or the
            model has no decoder.
    """
    config, stored = read_config(path, "--decoder")
    tokenizer = DecoderTokenizer(path)
    encoder_decoder = config.is_encoder_decoder
    kind: Any = transformers.AutoModelForSeq2SeqLM
    if not encoder_decoder:
        kind = transformers.AutoModelForCausalLM
        config.is_decoder = config.add_cross_attention = True
    try:
        if stored:
            model, missing = read_weights(kind, path, config=config)
        else:
            model, missing = kind.from_config(config), []
    except ValueError as error:
        fix = "name a decoder, an encoder-decoder, or a BERT"
        raise InvalidValue("--decoder", path, fix) from error
    if encoder_decoder:
        drawn = [k for k in missing if k.startswith(_ENCODER) or k == "final_logits_bias"]
        start = model.config.decoder_start_token_id
        owner = model if hasattr(model, "encoder") else model.model
        owner.encoder = _Absent()
    else:
        drawn = [k for k in missing if any(part in k for part in _DRAWN)]
        start = tokenizer.start_id
    require_all(set(missing).difference(drawn), path, "--decoder")
    if start is None:
        fix = "set decoder_start_token_id in its config.json, or a bos_token in its tokenizer"
        raise InvalidValue("--decoder", path, fix)
    return Decoder(model, tokenizer, start)


class _Absent(nn.Module):
    """Placeholder for the removed encoder, because the library reads its ``main_input_name``."""

    main_input_name = "input_ids"
