"""Contrastive training against sentence-transformers' MultipleNegativesRankingLoss.

The same encoder (BERT of all-MiniLM-L6-v2's shape with new weights, or the folder that
SENTUNE_MODELS has), the same triplets, batch, length and precision, mean pooling, one thread. Both
take turns in one process, so that a busy machine hits both; a step's seconds are CPU seconds.
The limit is the matrix products' alone: 6 operations a weight of the encoder's layers and a token
that is no padding, at the speed of torch's product of that width.
"""

from __future__ import annotations

import logging
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean

import torch
from measure import MODELS, compare, in_turns, minilm, product_speed, snli
from transformers import BertConfig, BertModel

from sentune.corpora import Kind, read
from sentune.corpora.batches import SharedSource
from sentune.corpora.encode import Encoder
from sentune.corpora.tokens import tokenise_batches
from sentune.encoders import prepare
from sentune.methods import find
from sentune.training.group import Group
from sentune.training.recipes import recipe_of
from sentune.training.settings import TrainingSettings
from sentune.training.step import Stepper, make_optimizer

BATCH, STEPS, LENGTH, RATE = 64, 10, 64, 5e-5


def encoder_folder(scratch: Path, texts: Iterator[str]) -> str:
    """A real MiniLM where there is one, else new weights of its shape over a learned tokenizer."""
    if MODELS:
        return minilm()
    folder = Path(prepare("builtin:tiny", texts, scratch))
    config = BertConfig.from_pretrained(
        folder, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


def ours(folder: str, table: SharedSource) -> Callable[[], None]:
    """A step of the training loop."""
    kind = find("simcse")
    settings = TrainingSettings(batch_size=BATCH, max_length=LENGTH, learning_rate=RATE)
    own = kind.settings_type(pooling="mean")
    method = recipe_of(kind).build(partial(kind, settings=own), settings, folder).train()
    group = Group.single()
    backward = recipe_of(kind).backward(method, settings, group, folder)
    stepper = Stepper(method, make_optimizer(method, settings), settings, group, backward)
    batches = table.batches(BATCH, seed=0)

    def step() -> None:
        stepper.step(next(batches).columns, factor=1.0, seed=(0,))

    return step


def theirs(folder: str, rows: list[dict[str, str]]) -> Callable[[], None]:
    """A step with their model and loss; tokenising belongs to it, as their loop has it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.float32})
    model.max_seq_length = LENGTH
    model.train()
    loss = MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    batches = iter([rows[i : i + BATCH] for i in range(0, len(rows), BATCH)])

    def step() -> None:
        batch = next(batches)
        columns = ("anchor", "positive", "negative")
        features = [model.preprocess([row[name] for row in batch]) for name in columns]
        optimizer.zero_grad()
        loss(features, None).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def main() -> None:
    """Prints examples a second and their ratio."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    spec = snli("train_first100k")
    corpus = read(spec, Kind.TRIPLETS, limit=BATCH * (STEPS + 1))
    rows = corpus.table.to_pylist()
    random.Random(0).shuffle(rows)  # as ours are: neighbours in a file share their premise
    with tempfile.TemporaryDirectory() as scratch:
        texts = (text for row in rows for text in row.values())
        folder = encoder_folder(Path(scratch), texts)
        batches, cache = corpus.table.to_batches(), Path(scratch, "tokens")
        encoder = Encoder(folder, LENGTH)
        tokens = tokenise_batches(batches, corpus.fingerprint, encoder, cache).load()
        table = SharedSource(tokens)
        steps = {"sentence-transformers": theirs(folder, rows), "sentune": ours(folder, table)}
        times = in_turns(steps, STEPS)
        count = sum(len(row) for column in tokens.columns.values() for row in column)
        operations = 6 * layer_weights(folder) * count / len(rows)
    speed = {name: BATCH / fmean(found) for name, found in times.items()}
    shown = spec.rsplit("/", 1)[-1]
    title = f"Contrastive training on {shown}, batch {BATCH}, at most {LENGTH} tokens, float32"
    speed |= {"the limit": product_speed(384, 1536) / operations}
    compare(title, speed, "examples")


def layer_weights(folder: str) -> int:
    """Weights that every token is multiplied by."""
    model = BertModel.from_pretrained(folder)
    return sum(p.numel() for p in model.encoder.parameters() if p.ndim == 2)


if __name__ == "__main__":
    main()
