"""The recipe of methods that embed sentences, such as SimCSE, GaussCSE and GumbelCSE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sentune.beats import beat
from sentune.encoders import (
    Chunk,
    Tokenizer,
    WordTokenizer,
    even_shares,
    length_sorted_chunks,
    load,
    load_tokenizer,
)
from sentune.encoders.words.vectors import is_word_table
from sentune.errors import InvalidValue
from sentune.io.folders import write_json
from sentune.methods import SentenceMethod
from sentune.tasks import Result, evaluate
from sentune.training.gradients import cached_backward, densify_gradients
from sentune.training.group import Group
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.recipes.base import Backward, Rows, Tasks, Validator
from sentune.training.settings import TrainingSettings, check_length
from sentune.training.trial import TrialSpec

HEAD_FILE = "head.safetensors"
ENCODER_FILES = ("config.json", "tokenizer_config.json", "model*.safetensors")
WHOLE = {"": "sentune.sentence_transformers.EmbedderModule"}
"""Modules of sentence-transformers for a model that is more than an encoder with pooling."""
LAYOUT = "6.2.0"
"""Version of sentence-transformers whose layout the model folders have."""
ENCODER_PREFIX = "encoder."
POOLED = ("simcse", "simcse-pairs", "simcse-unsupervised", "sbert-softmax")
"""Methods whose embeddings are the pooled vectors of the encoder."""


class Sentences:
    """The ``Recipe`` of methods that embed sentences; ``folder`` is that of an encoder.

    A model folder has the encoder in Hugging Face's format, or its word table, and
    ``head.safetensors``. Modules that only the loss uses are in checkpoints only.
    """

    def build(
        self, make: Callable[..., SentenceMethod], training: TrainingSettings, folder: str
    ) -> SentenceMethod:
        encoder = load(folder)
        check_length(training.max_length, encoder.max_length)
        method = make(encoder)
        load_tokenizer(folder).check_pooling(method.settings.pooling)
        return method

    def backward(
        self, method: SentenceMethod, training: TrainingSettings, group: Group, folder: str
    ) -> Backward:
        return SentenceBackward(method, training, group, load_tokenizer(folder).pad_id)

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> SentenceValidator:
        return SentenceValidator(spec, training, device, load_tokenizer(spec.encoder))

    def write(
        self, method: SentenceMethod, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        write_encoder(method, source, folder, training.max_length, pooled=method.name in POOLED)
        loss_modules = (f"{name}." for name in method.loss_modules)
        if head := head_state(method, (ENCODER_PREFIX, *loss_modules)):
            save_file(head, folder / HEAD_FILE)

    def read(self, make: Callable[..., SentenceMethod], folder: Path) -> SentenceMethod:
        if not is_word_table(folder):
            require(folder, *ENCODER_FILES)
        method = make(load(str(folder)))
        for name in method.loss_modules:
            delattr(method, name)
        load_head(method, folder / HEAD_FILE)
        return method


class SentenceValidator(Validator):
    """Evaluates a method on embedded sentences; each sentence is tokenised once per process."""

    def __init__(
        self,
        spec: TrialSpec,
        settings: TrainingSettings,
        device: torch.device,
        tokenizer: Tokenizer | WordTokenizer,
    ) -> None:
        super().__init__(spec, settings, device)
        self._tokenizer = tokenizer
        self._tokens = known_tokens(spec.encoder, settings.max_length)

    def _evaluate(self, method: Any, tasks: Tasks) -> Result:
        return evaluate(tasks, partial(self.embed, method), method.geometry)

    @torch.inference_mode()
    def embed(self, method: Any, sentences: Sequence[str]) -> Tensor:
        """Return the embeddings of S sentences, [S, D], computed in batches of similar length."""
        rows, device = self._tokenise(sentences), self._device
        chunks, restore = length_sorted_chunks(
            rows, sentences_at_a_time(device), self._tokenizer.pad_id, device.type
        )
        parts = []
        with autocast(self._settings.precision, device):
            for done, chunk in enumerate(chunks):
                beat("validating", done=done, total=len(chunks))
                parts.append(method.embed(*chunk.to(device)))
        return torch.cat(parts)[restore.to(device)]

    def _tokenise(self, sentences: Sequence[str]) -> list[np.ndarray]:
        found = self._tokens
        if fresh := [s for s in dict.fromkeys(sentences) if s not in found]:
            beat("tokenising", total=len(fresh))
            encoded = self._tokenizer.encode(fresh, self._settings.max_length)
            if len(found) + len(fresh) > MOST_KNOWN:
                found = dict(found)
            found.update(zip(fresh, encoded, strict=True))
        return [found[s] for s in sentences]


MOST_KNOWN = 200_000
"""Most sentences whose tokens a process keeps between validations, of about 1 kB each."""


@lru_cache(maxsize=1)
def known_tokens(folder: str, max_length: int) -> dict[str, np.ndarray]:
    """Return this process's cache of an encoder's tokenizer, sentence -> token ids."""
    return {}


def head_state(method: nn.Module, apart: tuple[str, ...] = (ENCODER_PREFIX,)) -> dict[str, Tensor]:
    """Return the weights of a method except those with a prefix in ``apart``.

    Weights that share storage are copied, because safetensors refuses shared storage.
    """
    kept = {k: v for k, v in method.state_dict().items() if not f"{k}.".startswith(apart)}
    uses = Counter(v.untyped_storage().data_ptr() for v in kept.values())
    tied = {k for k, v in kept.items() if uses[v.untyped_storage().data_ptr()] > 1}
    return {k: v.clone() if k in tied else v.contiguous() for k, v in kept.items()}


def load_head(method: nn.Module, file: Path, apart: tuple[str, ...] = (ENCODER_PREFIX,)) -> None:
    """Load the weights of ``head_state`` from a file.

    Raises:
        InvalidValue: the file is missing, or its weights do not fit the method.
    """
    wanted = head_state(method, apart)
    if wanted:
        require(file.parent, file.name)
    found = load_file(file) if wanted else {}
    if found.keys() != wanted.keys() or any(found[k].shape != wanted[k].shape for k in wanted):
        fix = f"{file.name} does not fit the method in settings.json"
        raise InvalidValue("model", str(file.parent), fix)
    method.load_state_dict(found, strict=False)


def require(folder: Path, *patterns: str) -> None:
    """Raise ``InvalidValue`` if a model folder has no file or folder for one of the patterns."""
    missing = [name.replace("*", "") for name in patterns if not any(folder.glob(name))]
    if missing:
        fix = f"it is not a model folder, because it lacks {', '.join(missing)}"
        raise InvalidValue("model", str(folder), fix)


def write_encoder(method: Any, source: str, folder: Path, max_length: int, *, pooled: bool) -> None:
    """Write a method's encoder, its tokenizer, and the files for sentence-transformers.

    Args:
        source: folder with the tokenizer.
        pooled: whether the embeddings are the encoder's pooled vectors.
    """
    method.encoder.save(folder)
    load_tokenizer(source).save(folder, max_length)
    if not (pooled and method.encoder.stands_alone):
        write_modules(folder)
        return
    (folder / "1_Pooling").mkdir()
    modality = {"method": "forward", "method_output_name": "last_hidden_state"}
    transformer = {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": modality},
        "module_output_name": "token_embeddings",
    }
    write_json(folder / "sentence_bert_config.json", transformer)
    pooling = {
        "embedding_dimension": method.encoder.width,
        "pooling_mode": method.settings.pooling,
        "include_prompt": True,
    }
    write_json(folder / "1_Pooling" / "config.json", pooling)
    kinds = {
        "": "sentence_transformers.base.modules.transformer.Transformer",
        "1_Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    }
    write_modules(folder, kinds)


def write_modules(folder: Path, kinds: Mapping[str, str] = WHOLE) -> None:
    """Write sentence-transformers' list of modules (path -> class) and configuration."""
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": kind}
        for place, (path, kind) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", modules)
    libraries = {"sentence_transformers": LAYOUT, "transformers": version("transformers")}
    about = {
        "__version__": {**libraries, "pytorch": torch.__version__},
        "default_prompt_name": None,
        "model_type": "SentenceTransformer",
        "prompts": {"document": "", "query": ""},
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "config_sentence_transformers.json", about)


class _Part(NamedTuple):
    """A batch of sentences to embed, with its shard's number if it is the shard's first."""

    chunk: Chunk
    shard: int | None


def distinct_rows(rows: Rows) -> tuple[list[np.ndarray], Tensor]:
    """Return the distinct rows, and the index of each row among them."""
    known: dict[bytes, int] = {}
    keys = [row.tobytes() for row in rows]
    places = [known.setdefault(key, len(known)) for key in keys]
    first = dict(zip(reversed(keys), reversed(rows), strict=True))
    return [first[key] for key in known], torch.tensor(places, dtype=torch.long)


class SentenceBackward:
    """Computes loss and gradient of a batch; see ``sentune.training.recipes.base.Backward``.

    If ``micro_batch`` is below the local share of the batch, gradients are cached (GradCache), so
    that the memory depends on the micro-batch; otherwise one autograd graph has all sentences.

    Sentences of similar length are embedded together, in a group by the same worker, whichever rows
    they belong to. This reduces padding and does not change the loss. Without dropout, equal
    sentences of the batch are embedded once.
    """

    def __init__(
        self, method: SentenceMethod, settings: TrainingSettings, group: Group, pad_id: int
    ) -> None:
        self.method, self._settings = method, settings
        self._group, self._pad_id = group, pad_id
        self._parallel: nn.Module = method
        method.encoder.sparse_gradients(on=group.device.type == "cpu")
        if group.world_size > 1:
            devices = [group.device] if group.device.type == "cuda" else None
            self._parallel = DistributedDataParallel(
                method,
                device_ids=devices,
                forward_sync_buffers=False,
                gradient_as_bucket_view=True,
            )

    def __call__(self, columns: Mapping[str, Rows]) -> Tensor:
        total = len(next(iter(columns.values())))
        parts, sizes, places = self._divide(columns, total)
        own = self._group.slice(total)
        device = self._group.device
        codes = {  # a row has one code
            name: torch.tensor(np.concatenate(columns[name][own]), dtype=torch.long, device=device)
            for name in self.method.codes
        }
        places = places.to(device)
        loss = partial(self._loss, codes=codes, sizes=sizes, places=places, total=total)
        micro = self._settings.micro_batch
        if micro is not None and micro < self._group.sizes(total)[0]:  # equal on all workers
            no_sync = getattr(self._parallel, "no_sync", nullcontext)
            value = cached_backward(self._embed, parts, loss, no_sync=no_sync)
        else:
            value = loss(torch.cat([self._embed(part) for part in parts]))
            torch.autograd.backward(value)
        densify_gradients(self.method.parameters())
        return value.detach()

    def _divide(
        self, columns: Mapping[str, Rows], total: int
    ) -> tuple[list[_Part], list[int], Tensor]:
        """Divide the sentences of a batch into shards of similar length and equal token counts.

        A shard is embedded in the same way on any worker, so that dropout draws the same masks.

        Returns:
            The batches that this worker embeds, the number of embeddings of each worker, and
            [roles * n] indices of this worker's rows, role by role, among those of all workers.
        """
        roles, group, micro = self.method.roles, self._group, self._settings.micro_batch
        rows = [row for name in roles.values() for row in columns[name]]
        places = torch.arange(len(rows))
        by_worker = group.shards_by_worker(len(rows))
        count = by_worker[-1].stop
        if not self.method.encoder.drops_out():
            distinct, among = distinct_rows(rows)
            if len(distinct) >= count:  # every worker needs a sentence
                rows, places = distinct, among
        order, shares = even_shares(rows, count)
        ends = [0, *accumulate(shares)]
        size = sentences_at_a_time(group.device)
        if micro is not None and micro < -(-total // count):
            size = micro * len(roles)
        parts: list[_Part] = []
        for shard in by_worker[group.rank]:
            own = [rows[at] for at in order[ends[shard] : ends[shard + 1]]]
            # the sentences are sorted already
            chunks, _ = length_sorted_chunks(own, size, self._pad_id, group.device.type)
            parts += [_Part(chunk, None if at else shard) for at, chunk in enumerate(chunks)]
        sizes = [ends[shards.stop] - ends[shards.start] for shards in by_worker]
        places = torch.from_numpy(np.argsort(order))[places].view(len(roles), total)
        return parts, sizes, places[:, group.slice(total)].flatten()

    def _embed(self, part: _Part) -> Tensor:
        if part.shard is not None:
            self._group.streams.use(part.shard)
        with autocast(self._settings.precision, self._group.device):
            embeddings: Tensor = self._parallel(*part.chunk.to(self._group.device))
        return embeddings

    def _loss(
        self,
        embeddings: Tensor,
        *,
        codes: Mapping[str, Tensor],
        sizes: list[int],
        places: Tensor,
        total: int,
    ) -> Tensor:
        """Return the local part of the mean loss times the world size (see ``Backward``)."""
        embeddings = self._group.gather_shares(embeddings, sizes)
        parts = embeddings[places].chunk(len(self.method.roles))
        value = self.method.loss(
            {**dict(zip(self.method.roles, parts, strict=True)), **codes},
            partial(self._group.gather, rows=total),
            self._group.offset(total),
        )
        return value * (self._group.world_size / total)
