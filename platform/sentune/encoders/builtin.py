"""Models of ``builtin:tiny``: a small BERT as encoder and a small BART as decoder.

Nothing is downloaded: the word pieces are learned from the corpus, and the weights are initialised
on loading.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache as cache_once
from pathlib import Path
from typing import Annotated, ClassVar, Self
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from sentune.errors import InvalidValue, invalid_value
from sentune.io.atomic import read_document, write_document
from sentune.io.folders import cached_folder
from sentune.lazy_import import transformers

Width = Annotated[int, Field(ge=8, le=1024)]
Inner = Annotated[int, Field(ge=8, le=4096)]

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
"""Special tokens of built-in models; their indices are their ids."""
_PAD, _START, _END = (SPECIAL_TOKENS.index(token) for token in ("[PAD]", "[CLS]", "[SEP]"))


class BuiltinOptions(BaseModel):
    """Options of ``builtin:NAME?option=value&...``; a subclass defines them as fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    part: ClassVar[str]  # command-line option without dashes, such as encoder
    builtin: ClassVar[str]  # NAME

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Parse a specification such as ``builtin:tiny?layers=2&width=64``.

        Raises:
            InvalidValue: the name is another one, or an option is unknown or invalid.
        """
        option, (name, _, query) = f"--{cls.part}", spec.partition("?")
        if name != f"builtin:{cls.builtin}":
            verb = "are" if cls.part.endswith("s") else "is"
            fix = f"the built-in {cls.part} {verb} builtin:{cls.builtin}"
            raise InvalidValue(option, spec, fix)
        try:
            return cls.model_validate(dict(parse_qsl(query, strict_parsing=bool(query))))
        except ValueError as error:
            reason = str(error)
            if isinstance(error, ValidationError):
                wrong = invalid_value(error, {})
                reason = f"{wrong.field}: {wrong.fix}"
            allowed = ", ".join(cls.model_fields)
            raise InvalidValue(option, spec, f"{reason}; the options are {allowed}") from error


class TinyOptions(BuiltinOptions, ABC):
    """Options of ``builtin:tiny``; subclasses define the default widths."""

    builtin: ClassVar[str] = "tiny"
    folder: ClassVar[str]  # prefix of the folder's name
    tokens: ClassVar[dict[str, str]] = {}  # the tokenizer's special tokens in addition to BERT's

    layers: int = Field(2, ge=1, le=24)
    """Transformer layers."""
    width: Width
    """Width of the hidden states; a multiple of ``heads``."""
    heads: int = Field(4, ge=1, le=16)
    """Attention heads."""
    inner: Inner
    """Width of the feed-forward layers."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout of hidden states and attention."""
    vocabulary: int = Field(8000, ge=100, le=60000)
    """Most word pieces, special tokens included."""
    positions: int = Field(128, ge=8, le=4096)
    """Most tokens of a sentence."""

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Do as the base class, and check that ``width`` is a multiple of ``heads``."""
        options = super().parse(spec)
        if options.width % options.heads:
            raise InvalidValue(f"--{cls.part}", spec, "width must be a multiple of heads")
        return options

    @abstractmethod
    def config(self, vocabulary: int) -> transformers.BertConfig | transformers.BartConfig:
        """Return the configuration of a model with ``vocabulary`` word pieces."""

    def prepare(self, texts: Iterable[str], cache: Path, source: str = "") -> Path:
        """Return the folder with config and tokenizer, created if it is missing.

        Its name has a hash of the options and the words with their counts. With ``source``, the
        name is stored, so that the same source, options and code find it without the texts.

        Raises:
            InvalidValue: the texts have no words.
        """
        code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        key = hashlib.sha256(f"{source} {self.model_dump_json()} {code}".encode()).hexdigest()
        place, noted, name = f"{cache}/sources", f"{self.folder}-{key[:32]}.txt", ""
        if source:
            with suppress(ValueError):  # if it is damaged, the name is computed again
                name = read_document(place, noted) or ""

        @cache_once
        def counted() -> Counter[str]:
            if not (words := count_words(texts)):
                fix = "the corpus has no words to learn from"
                raise InvalidValue(f"--{self.part}", "builtin:tiny", fix)
            return words

        def write(draft: Path) -> None:
            tokenizer = learn_tokenizer(counted(), self.vocabulary)
            if self.part == "decoder":
                tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
            transformers.PreTrainedTokenizerFast(
                tokenizer_object=tokenizer,
                model_max_length=self.positions,
                pad_token="[PAD]",
                unk_token="[UNK]",
                cls_token="[CLS]",
                sep_token="[SEP]",
                mask_token="[MASK]",
                **self.tokens,
            ).save_pretrained(str(draft))
            self.config(tokenizer.get_vocab_size()).save_pretrained(str(draft))

        if not re.fullmatch(rf"{self.folder}-[0-9a-f]{{16}}", name):
            content = json.dumps([self.model_dump(), sorted(counted().items())], ensure_ascii=False)
            name = f"{self.folder}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
            if source:
                write_document(place, noted, name)
        return cached_folder(cache / name, write)


class TinyEncoder(TinyOptions):
    """Options of the built-in encoder, a BERT."""

    part: ClassVar[str] = "encoder"
    folder: ClassVar[str] = "tiny"

    width: Width = 64
    inner: Inner = 256

    def config(self, vocabulary: int) -> transformers.BertConfig:
        return transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.inner,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            max_position_embeddings=self.positions,
            pad_token_id=_PAD,
        )


class TinyDecoder(TinyOptions):
    """Options of the built-in decoder, a BART without encoder layers."""

    part: ClassVar[str] = "decoder"
    folder: ClassVar[str] = "tiny-decoder"
    tokens: ClassVar[dict[str, str]] = {"bos_token": "[CLS]", "eos_token": "[SEP]"}

    width: Width = 128
    inner: Inner = 512

    def config(self, vocabulary: int) -> transformers.BartConfig:
        # the weights' standard deviation is 1 / sqrt(width). With BART's 0.02, which suits a width
        # of 768, the cross-attention of a narrow decoder adds only a twentieth of its input vector
        return transformers.BartConfig(
            vocab_size=vocabulary,
            d_model=self.width,
            encoder_layers=0,
            decoder_layers=self.layers,
            encoder_attention_heads=self.heads,
            decoder_attention_heads=self.heads,
            encoder_ffn_dim=self.inner,
            decoder_ffn_dim=self.inner,
            dropout=self.dropout,
            attention_dropout=self.dropout,
            max_position_embeddings=self.positions,
            init_std=1 / math.sqrt(self.width),
            pad_token_id=_PAD,
            bos_token_id=_START,
            eos_token_id=_END,
            decoder_start_token_id=_START,
            forced_eos_token_id=None,
        )


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count lower-cased words and punctuation marks, the only input of ``learn_tokenizer``."""
    normalise, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        words.update(w for w, _ in split.pre_tokenize_str(normalise.normalize_str(text)))
    return words


def learn_tokenizer(words: Counter[str], size: int) -> Tokenizer:
    """Learn a lower-casing word piece tokenizer that puts [CLS] and [SEP] around a sentence.

    Equal words give an equal vocabulary. The trainer would number characters in the order of a hash
    map and break ties by number, which differs between runs. Therefore all characters are passed as
    special tokens, which fixes their numbers.

    Args:
        words: word -> count.
        size: maximum number of word pieces, special tokens included.
    """
    letters = sorted({letter for word in words for letter in word})
    fixed = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(size, len(fixed)),
        special_tokens=fixed,
        initial_alphabet=letters,
        show_progress=False,
    )
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # counts above 1,000 hardly change the merges; the limit makes large corpora fast
    texts = (" ".join([word] * min(count, 1000)) for word, count in sorted(words.items()))
    learner.train_from_iterator(texts, trainer)
    tokenizer = Tokenizer(models.WordPiece(vocab=learner.get_vocab(), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, SPECIAL_TOKENS.index(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return tokenizer
