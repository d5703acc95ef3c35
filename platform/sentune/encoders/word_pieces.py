"""A WordPiece tokenizer learned from words and their counts, equal for equal words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
"""Their places are their ids."""


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Return lower-cased words and punctuation marks; what is learned depends on nothing else."""
    normalise, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        words.update(w for w, _ in split.pre_tokenize_str(normalise.normalize_str(text)))
    return words


def learn_tokenizer(words: Counter[str], size: int) -> Tokenizer:
    """Return a tokenizer that lower-cases, splits, and puts [CLS] and [SEP] around a sentence.

    Equal words give an equal vocabulary: the trainer numbers characters in the order of a hash map
    and breaks ties by number, so two runs would disagree; naming every character up front as a
    special token fixes the numbers.

    Args:
        words: with their counts.
        size: most pieces, special tokens included.
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
    # counts above a thousand change no merge that matters, and keep a large corpus fast
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
