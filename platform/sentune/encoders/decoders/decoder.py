"""A decoder that sees one vector: sentences' embeddings in, sentences out.

Legend: N = sentences, L = tokens of the longest of them, D = width, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig
from transformers.modeling_outputs import BaseModelOutput

from sentune.encoders.decoders.tokenizing import DecoderTokenizer
from sentune.encoders.transformer import no_progress_bars


class Decoder(nn.Module):
    """A Hugging Face decoder whose cross-attention has one place: the vector (InterSent 2.3).

    Args:
        model: of Hugging Face, with an output layer; see ``load_decoder``.
        tokenizer: the decoder's own.
        start_id: the token that a sentence is begun with.

    Attributes:
        width: D of the vectors that it takes.
        max_length: most tokens of a sentence, special tokens included.
        given: tokens at the front of a tokenised sentence that are given and not predicted: 1
            where the tokenizer itself begins with ``start_id`` (BERT), else 0 (T5, BART).
    """

    def __init__(self, model: Any, tokenizer: DecoderTokenizer, start_id: int) -> None:
        super().__init__()
        self.model: Any = model
        self.tokenizer, self.start_id = tokenizer, start_id
        self.pad_id, self.end_id = tokenizer.pad_id, tokenizer.end_id
        self.given = int(tokenizer.leads and start_id == tokenizer.start_id)
        self.width: int = model.config.hidden_size
        self.max_length: int = getattr(model.config, "max_position_embeddings", None) or 512
        self._joined: bool = model.config.is_encoder_decoder
        # a checkpoint's own generation settings (bart-large-cnn: 4 beams, at least 56 tokens)
        # would fill in whatever a call leaves open
        model.generation_config = GenerationConfig()

    def predicted(self, mask: Tensor) -> Tensor:
        """[N, L] mask of tokens -> [N, L] mask of those that count in the loss."""
        return F.pad(mask[:, self.given :], (self.given, 0))

    def loss_per_token(self, memory: Tensor, decoded: Tensor, mask: Tensor) -> Tensor:
        """Negative log-likelihoods -log p(t_k | t_<k, v), InterSent Eq. 2.

        Args:
            memory: [N, D].
            decoded: [N, L] ids as the tokenizer gives them, padded on the right.
            mask: [N, L], 1 on tokens and 0 on padding.

        Returns:
            [N, L], 0 on padding and on given tokens; float32 under autocast.
        """
        inputs, labels = decoded[:, :-1], decoded[:, self.given :]
        if not self.given:
            inputs = F.pad(inputs, (1, 0), value=self.start_id)
        logits = self._logits(memory, inputs)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        losses = F.pad(losses, (self.given, 0))
        return losses * self.predicted(mask).to(losses.dtype)

    def _logits(self, memory: Tensor, inputs: Tensor) -> Tensor:
        """[N, D], [N, L] -> [N, L, V]. Padding comes last, so causal attention never sees it."""
        place = memory.unsqueeze(1)
        if self._joined:
            outputs = BaseModelOutput(last_hidden_state=place)
            found = self.model(encoder_outputs=outputs, decoder_input_ids=inputs, use_cache=False)
        else:
            found = self.model(input_ids=inputs, encoder_hidden_states=place, use_cache=False)
        return found.logits

    @torch.no_grad()
    def generate(
        self, memory: Tensor, beams: int = 1, max_length: int | None = None
    ) -> list[list[int]]:
        """Return the likeliest sentences found by beam search, or greedily by one beam.

        Args:
            memory: [N, D].
            beams: sentences that are followed at a time.
            max_length: most tokens; the decoder's own limit bounds it.

        Returns:
            N lists of ids without start, end and padding tokens; ``texts`` makes sentences of
            them.
        """
        if not len(memory):
            return []
        longest = min(max_length or self.max_length, self.max_length) - 1
        asked = GenerationConfig(
            max_new_tokens=longest,
            num_beams=beams,
            do_sample=False,
            pad_token_id=self.pad_id,
            eos_token_id=self.end_id,
            bos_token_id=self.start_id,
            decoder_start_token_id=self.start_id,
        )
        found = self.model.generate(generation_config=asked, **self._prompt(memory))
        return [self._sentence(row) for row in found[:, 1:].tolist()]

    def _prompt(self, memory: Tensor) -> dict[str, Any]:
        place = memory.unsqueeze(1)
        if self._joined:
            return {"encoder_outputs": BaseModelOutput(last_hidden_state=place)}
        start = torch.full((len(memory), 1), self.start_id, device=memory.device)
        # without it the library caches no cross-attention, which BERT's layers take for granted
        cache = EncoderDecoderCache(
            DynamicCache(config=self.model.config), DynamicCache(config=self.model.config)
        )
        ones = torch.ones_like(start)
        return {
            "input_ids": start,
            "attention_mask": ones,
            "encoder_hidden_states": place,
            "past_key_values": cache,
        }

    def _sentence(self, ids: list[int]) -> list[int]:
        end = ids.index(self.end_id) if self.end_id in ids else len(ids)
        return [token for token in ids[:end] if token not in (self.pad_id, self.start_id)]

    def texts(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Sentences of lists of ids."""
        return self.tokenizer.texts(ids)

    def save(self, folder: Path) -> None:
        """Write config, weights (safetensors) and tokenizer as ``load_decoder`` reads them."""
        with no_progress_bars():
            self.model.save_pretrained(folder)
        self.tokenizer.save(folder)
