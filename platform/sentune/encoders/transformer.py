"""A Hugging Face encoder as a module from token ids to sentence vectors.

Legend: N = sentences, L = tokens, H = width of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from sentune.encoders.tokenizing import Tokenizer
from sentune.errors import InvalidValue
from sentune.lazy_import import transformers

Pooling = Literal["cls", "mean", "max"]
_UNUSED = ("pooler.", "decoder.")

DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")
"""Attributes with the rate of attention and feed-forward layers that drop out by a function."""


class TextEncoder(nn.Module):
    """Sentence vectors from the last hidden states of a transformer.

    Of an encoder-decoder (T5, BART), only the encoder is used.

    Attributes:
        width: H.
        max_length: maximum number of tokens of a sentence, special tokens included.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        # the pooler is not used, and DistributedDataParallel does not allow unused parameters
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self._encoder_decoder: bool = bool(getattr(model.config, "is_encoder_decoder", False))
        if self._encoder_decoder:
            model.decoder = None
        self.model: Any = model
        self.width: int = model.config.hidden_size
        self.max_length: int = most_tokens(model) or 512

    def forward(self, input_ids: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
        """Return sentence vectors [N, H] of ids and mask [N, L], in the weights' precision."""
        return pool(self.states(input_ids, attention_mask).to(self.dtype), attention_mask, pooling)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the last hidden states [N, L, H] of ids and mask [N, L]."""
        outputs = self.stack(input_ids=input_ids, attention_mask=attention_mask)
        found: Tensor = outputs.last_hidden_state
        return found

    @property
    def stack(self) -> Any:
        """The model, or the encoder of an encoder-decoder."""
        return self.model.encoder if self._encoder_decoder else self.model

    @property
    def stands_alone(self) -> bool:
        """Whether sentence-transformers loads the saved folder without a decoder.

        It has classes for the encoders of T5 and mT5. With those of BART and others it pools the
        states of a decoder, which the folder lacks.
        """
        return not self._encoder_decoder or self.model.config.model_type in ("t5", "mt5")

    def sparse_gradients(self, *, on: bool) -> None:
        """Make the gradient of the input embeddings sparse, with rows for a call's tokens only.

        A dense one has 30,522 rows for MiniLM, and every call would add to all of them.
        """
        self.stack.get_input_embeddings().sparse = on

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def drops_out(self) -> bool:
        """Return whether dropout is active, so that encoding is not deterministic."""
        if not self.training:
            return False
        layers = (m.p for m in self.modules() if isinstance(m, nn.Dropout))
        functions = (getattr(m, name, None) for m in self.modules() for name in DROPOUTS)
        named = (v for k, v in self.model.config.to_dict().items() if "drop" in k)
        rates = (*layers, *functions, *named)
        return any(isinstance(rate, float) and rate > 0 for rate in rates)

    def set_dropout(self, rate: float) -> None:
        """Set the rate of every dropout layer, and of those of ``DROPOUTS``."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = rate
            for name in DROPOUTS:
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, rate)

    def save(self, folder: Path) -> None:
        """Write config and weights in Hugging Face's format (safetensors)."""
        with no_progress_bars():
            self.model.save_pretrained(folder)


def most_tokens(model: nn.Module) -> int | None:
    """Return a Hugging Face model's maximum number of tokens, special tokens included, or None.

    RoBERTa, MPNet and Longformer number positions from the padding id + 1, so that they have fewer
    positions than ``max_position_embeddings``.
    """
    places: int | None = getattr(model.config, "max_position_embeddings", None)
    tables = (m for name, m in model.named_modules() if name.endswith("position_embeddings"))
    padding = getattr(next(tables, None), "padding_idx", None)
    return places - padding - 1 if places and padding is not None else places


def pool(states: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """Pool states [N, L, H] over the tokens of the mask [N, L] to vectors [N, H].

    ``cls`` takes the first state, ``mean`` and ``max`` the mean or maximum of each dimension. A
    sentence without tokens has a zero vector with ``mean`` and ``max``.
    """
    if pooling == "cls":
        return states[:, 0]
    mask = mask.unsqueeze(-1)
    if pooling == "max":
        largest = states.masked_fill(mask == 0, float("-inf")).amax(1)
        return largest.masked_fill(mask.sum(1) == 0, 0.0)
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1)


def load(path: str) -> TextEncoder:
    """Load the encoder of a folder from ``prepare``, in float32.

    A folder without any weights is an encoder to train from scratch. Its weights are initialised
    from torch's global generator, and so depend on the trial's seed.

    Raises:
        InvalidValue: the config or some weights are missing, or the weights are no safetensors.
    """
    config, stored = read_config(path, "--encoder")
    # since Hopper, torch prefers cuDNN's attention, which makes a new plan for each new shape
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    if not stored:
        return TextEncoder(transformers.AutoModel.from_config(config))
    model, missing = read_weights(transformers.AutoModel, path)
    require_all((key for key in missing if not key.startswith(_UNUSED)), path, "--encoder")
    return TextEncoder(model)


def word_averages(path: str) -> Callable[[Sequence[str]], Tensor] | None:
    """Return a function from N sentences to the averages of their input embeddings, [N, H].

    Special tokens are left out. A sentence without tokens has a zero vector. The result is None if
    the encoder at ``path`` has no weights, because it is to be trained from scratch.
    """
    if not read_config(path, "--encoder")[1]:
        return None
    encoder, tokenizer = load(path), Tokenizer(path)
    vectors: Tensor = encoder.model.get_input_embeddings().weight.detach()

    def average(sentences: Sequence[str]) -> Tensor:
        ids = tokenizer.encode(sentences, encoder.max_length, special=False)
        ends = torch.tensor([0, *map(len, ids)]).cumsum(0)
        tokens = torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *ids]))
        return embedding_bag(tokens, vectors, ends[:-1], mode="mean")

    return average


def read_config(path: str, option: str) -> tuple[Any, bool]:
    """Return the configuration of a Hugging Face folder, and whether it has weights.

    Raises:
        InvalidValue: of ``option``, if the folder has no config or its weights are no safetensors.
    """
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise InvalidValue(option, path, "name a folder with a config.json")
    stored = any(folder.glob("*.safetensors"))
    if not stored and any(folder.glob("*.bin")):
        raise InvalidValue(option, path, "convert its weights to safetensors first")
    config = transformers.AutoConfig.from_pretrained(
        path, trust_remote_code=False, local_files_only=True
    )
    return config, stored


def read_weights(kind: Any, path: str, **options: Any) -> tuple[Any, list[str]]:
    """Load a model of a Hugging Face class in float32; return it and its missing weights' names."""
    with no_progress_bars():
        model, info = kind.from_pretrained(
            path,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **options,
        )
    return model, sorted(info["missing_keys"])


def require_all(missing: Iterable[str], path: str, option: str) -> None:
    """Raise an ``InvalidValue`` that names ``option`` if weights are missing."""
    if names := sorted(missing)[:3]:
        fix = f"its weights lack {', '.join(names)}; name a model with all weights"
        raise InvalidValue(option, path, fix)


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Silence progress bars and the report of missing weights, which ``require_all`` checks."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
