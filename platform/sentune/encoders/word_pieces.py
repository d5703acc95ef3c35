"""A WordPiece tokenizer learned from words and their counts, equal for equal words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
"""Their places are their ids."""


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Lower-cased words and punctuation marks; what is learned depends on nothing else."""
    normalise, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        words.update(w for w, _ in split.pre_tokenize_str(normalise.normalize_str(text)))
    return words


def learn_tokenizer(words: Counter[str], size: int) -> Tokenizer:
    """Lower-cases, splits, and puts [CLS] and [SEP] around; at most ``size`` pieces."""
    return _with_special_tokens(_learn_pieces(words, size))


def _learn_pieces(words: Counter[str], size: int) -> models.WordPiece:
    """WordPiece vocabulary, equal for equal words.

    The trainer numbers characters in the order of a hash map and breaks ties by number, so two
    runs disagree; naming every character up front as a special token fixes the numbers.
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
    learner.train_from_iterator(_repeat(words), trainer)
    return models.WordPiece(vocab=learner.get_vocab(), unk_token="[UNK]")


def _repeat(words: Counter[str]) -> Iterator[str]:
    # counts above a thousand change no merge that matters, and keep a large corpus fast
    for word, count in sorted(words.items()):
        yield " ".join([word] * min(count, 1000))


def _with_special_tokens(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, SPECIAL_TOKENS.index(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return tokenizer
