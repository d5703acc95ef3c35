"""Training invertible decoders against the same model fed by a plain PyTorch DataLoader.

The same weights, words, batch and optimiser, one thread. The plain loop pads both sentences as a
collate function does, packs the padded ids for the GRU and masks the loss; ours looks up the words
there are. Both take turns in one process, so that a busy machine hits both; seconds are CPU
seconds. With SENTUNE_DATA the sentences are those of books and the words of GloVe.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from measure import DATA, compare, in_turns
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

from sentune.corpora import Kind, read
from sentune.corpora.batches import SharedSource
from sentune.corpora.encode import WordEncoder
from sentune.corpora.tokens import TokenTable, tokenise_batches, unigram_counts
from sentune.encoders.words import WordTable, open_words
from sentune.encoders.words.learned import learn_words
from sentune.encoders.words.vectors import FixedVectors
from sentune.methods.invertible import Invertible, InvertibleSettings
from sentune.training.group import Group
from sentune.training.recipes.invertible import InvertibleBackward
from sentune.training.settings import TrainingSettings
from sentune.training.step import Stepper, make_optimizer

BATCH, STEPS, LENGTH, HIDDEN, NEGATIVES = 256, 8, 64, 128, 5
Step = Callable[[], None]


def ours(method: Invertible, tokens: TokenTable, counts: np.ndarray) -> Step:
    """A step of the training loop."""
    settings, group = TrainingSettings(batch_size=BATCH), Group.single("cpu")
    backward = InvertibleBackward(method, settings, group, counts)
    stepper = Stepper(method, make_optimizer(method, settings), settings, group, backward)
    batches = SharedSource(tokens).batches(BATCH, seed=0)

    def step() -> None:
        stepper.step(next(batches).columns, factor=1.0, seed=(0,))

    return step


def theirs(method: Invertible, tokens: TokenTable, counts: np.ndarray) -> Step:
    """A step as it is written without a platform."""
    words = torch.from_numpy(np.array(method.vectors.table.vectors))
    embedding = nn.Embedding.from_pretrained(words, freeze=True)
    frequencies = torch.from_numpy(counts).double() ** 0.75
    settings = TrainingSettings(batch_size=BATCH)
    optimizer = make_optimizer(method, settings)
    batches = _batches(tokens)

    def step() -> None:
        texts, lengths, followings, counted = next(batches)
        packed = pack_padded_sequence(
            embedding(texts), lengths, batch_first=True, enforce_sorted=False
        )
        z = method.encoder.last(packed)
        x = method.decoder(z)
        shape = (*followings.shape, NEGATIVES)
        drawn = torch.multinomial(frequencies, followings.numel() * NEGATIVES, replacement=True)
        right = torch.einsum("bn,bln->bl", x, embedding(followings))
        wrong = torch.einsum("bn,blkn->blk", x, embedding(drawn.view(shape)))
        terms = F.softplus(-right) + F.softplus(wrong).sum(2)
        mask = torch.arange(terms.shape[1]) < counted[:, None]
        loss = ((terms * mask).sum(1) / counted).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(method.parameters(), 1.0)
        optimizer.step()
        method.after_step()

    return step


def _batches(tokens: TokenTable) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Padded ids and lengths of both columns, from a shuffling DataLoader."""
    columns = tokens.columns["text"], tokens.columns["following"]
    rows = [
        tuple(torch.from_numpy(column[i].astype(np.int64)) for column in columns)
        for i in range(sum(tokens.shards))
        if all(len(column[i]) for column in columns)
    ]

    def collate(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        text, following = zip(*pairs, strict=True)
        lengths = (torch.tensor([len(row) for row in side]) for side in (text, following))
        first, second = lengths
        return (
            pad_sequence(text, batch_first=True),
            first,
            pad_sequence(following, batch_first=True),
            second,
        )

    return iter(DataLoader(rows, batch_size=BATCH, shuffle=True, collate_fn=collate))


def corpus(cache: Path) -> tuple[str, TokenTable, WordTable, np.ndarray]:
    """Its name, its sentences as rows of words, the words and how often each occurs."""
    spec = f"books:{DATA}/gutenberg" if DATA else "builtin:stories"
    pairs = read(spec, Kind.ADJACENT_SENTENCES)
    if DATA:
        words = open_words(f"glove:{DATA}/words/glove.840B.300d.33860.txt.gz", None, cache)
    else:
        words = learn_words(pairs.table["text"].to_pylist(), "builtin:ppmi?width=64", cache)
    encoder, batches = WordEncoder(words, LENGTH), pairs.table.to_batches()
    tokens = tokenise_batches(batches, pairs.fingerprint, encoder, cache / "tokens")
    counts = unigram_counts(tokens, "following", len(words.words))
    return spec, tokens.load(), words, counts


def main() -> None:
    """Prints sentences a second and their ratio."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        spec, tokens, words, counts = corpus(Path(scratch))
        torch.manual_seed(0)
        settings = InvertibleSettings(hidden_size=HIDDEN, negatives=NEGATIVES)
        method = Invertible(FixedVectors(words), settings).train()
        steps = {
            "PyTorch DataLoader": theirs(copy.deepcopy(method), tokens, counts),
            "sentune": ours(method, tokens, counts),
        }
        times = in_turns(steps, STEPS)
    shown = spec.rsplit("/", 1)[-1]
    title = f"Invertible decoders on {shown}, batch {BATCH}, {HIDDEN} units a direction, float32"
    compare(title, {name: BATCH / fmean(found) for name, found in times.items()}, "sentences")


if __name__ == "__main__":
    main()
