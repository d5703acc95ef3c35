"""A Hugging Face encoder as one module: token ids in, one vector per sentence out.

Legend: N = sentences, L = tokens, H = width of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from sentune.encoders.tokenizing import Tokenizer
from sentune.errors import InvalidValue
from sentune.lazy_import import LazyModule

if TYPE_CHECKING:
    import transformers
else:
    transformers = LazyModule("transformers")

Pooling = Literal["cls", "mean", "max"]
_UNUSED = ("pooler.", "decoder.")


class TextEncoder(nn.Module):
    """Sentence vectors from the last hidden states of a transformer.

    Of an encoder-decoder (T5, BART) it is the encoder alone. ``width`` is H; ``max_length`` is the
    most tokens of a sentence, special tokens included.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        # the pooler's output is not used here, and DistributedDataParallel refuses idle parameters
        if getattr(model, "pooler", None) is not None:
            model.pooler = None
        self._encoder_decoder: bool = bool(getattr(model.config, "is_encoder_decoder", False))
        if self._encoder_decoder:
            model.decoder = None
        self.model: Any = model
        self.width: int = model.config.hidden_size
        self.max_length: int = most_tokens(model) or 512

    def forward(self, input_ids: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
        """[N, L], [N, L] -> [N, H], in the precision of the weights."""
        return pool(self.states(input_ids, attention_mask).to(self.dtype), attention_mask, pooling)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[N, L], [N, L] -> [N, L, H] last hidden states."""
        found: Tensor = self.stack(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state
        return found

    @property
    def stack(self) -> Any:
        """The model, of an encoder-decoder its encoder."""
        return self.model.encoder if self._encoder_decoder else self.model

    def sparse_gradients(self, *, on: bool) -> None:
        """Whether the gradient of the input embeddings holds the rows of a call's tokens alone.

        A dense one of MiniLM has 30,522 rows, and every call adds one of its own to it.
        """
        self.stack.get_input_embeddings().sparse = on

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def drops_out(self) -> bool:
        """Return whether the same sentence, embedded twice, may give two vectors."""
        if not self.training:
            return False
        layers = (m.p for m in self.modules() if isinstance(m, nn.Dropout))
        named = (v for k, v in self.model.config.to_dict().items() if "drop" in k)
        return any(isinstance(rate, float) and rate > 0 for rate in (*layers, *named))

    def set_dropout(self, rate: float) -> None:
        """Give every dropout layer the same rate."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = rate

    def save(self, folder: Path) -> None:
        """Write config and weights in Hugging Face's layout (safetensors)."""
        with no_progress_bars():
            self.model.save_pretrained(folder)


def most_tokens(model: nn.Module) -> int | None:
    """Return the most tokens for which a Hugging Face model has positions, special tokens included;
    None where its config names no limit.

    RoBERTa and its like (MPNet, Longformer) number the tokens from the id behind the padding's on.
    """
    places: int | None = getattr(model.config, "max_position_embeddings", None)
    tables = (m for name, m in model.named_modules() if name.endswith("position_embeddings"))
    padding = getattr(next(tables, None), "padding_idx", None)
    return places - padding - 1 if places and padding is not None else places


def pool(states: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """[N, L, H] states and [N, L] mask, 1 on tokens -> [N, H]: the first state, or the mean or the
    largest value of each dimension over the tokens, 0 where there is none."""
    if pooling == "cls":
        return states[:, 0]
    mask = mask.unsqueeze(-1)
    if pooling == "max":
        largest = states.masked_fill(mask == 0, float("-inf")).amax(1)
        return largest.masked_fill(mask.sum(1) == 0, 0.0)
    return (states * mask).sum(1) / mask.sum(1).clamp(min=1)


def load(path: str) -> TextEncoder:
    """Return the encoder that ``prepare`` left at ``path``, in float32 whatever it was stored in.

    A folder without any weights is an encoder to train from scratch: its weights are drawn from
    torch's global generator, so that the trial's seed decides them.

    Raises:
        InvalidValue: the folder has no config, lacks weights, or has some that are not safetensors.
    """
    config, stored = read_config(path, "--encoder")
    # torch prefers cuDNN's attention on GPUs since Hopper, and it plans anew for each new shape
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    if not stored:
        return TextEncoder(transformers.AutoModel.from_config(config))
    model, missing = read_weights(transformers.AutoModel, path)
    require_all((key for key in missing if not key.startswith(_UNUSED)), path, "--encoder")
    return TextEncoder(model)


def word_averages(path: str) -> Callable[[Sequence[str]], Tensor] | None:
    """Return a function from N sentences to [N, H] averages of their tokens' input embeddings.

    Special tokens are left out; a sentence without a token is a zero vector. None where the encoder
    at ``path`` has no weights: it is trained from scratch.
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
        InvalidValue: of ``option``: the folder has no config, or weights that are not safetensors.
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
    """Return a model of a Hugging Face class in float32, and the names of weights that it lacks."""
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
    """Raise an ``InvalidValue`` of ``option`` where weights are missing that are used."""
    if names := sorted(missing)[:3]:
        raise InvalidValue(option, path, f"its weights lack {', '.join(names)}")


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Silence the bars and the table of missing weights, which ``require_all`` checks."""
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
