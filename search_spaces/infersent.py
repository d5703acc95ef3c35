"""InferSent: search space, objective, and the values of the paper.

Conneau et al.: Supervised Learning of Universal Sentence Representations from Natural Language
Inference Data, 2017, section 3.3.
"""

from sentune.job.options import WordOptions
from sentune.study.space import Choice, SearchSpace, Uniform

SPACE = SearchSpace(
    method="infersent",
    objective="rte/auc",
    settings={
        "hidden_size": Choice(64, 128, 256, 512, 1024, 2048),
        "batch_size": Choice(32, 64, 128, 256),
        "learning_rate": Uniform(1e-4, 1e-2, log=True),
        "concatenation": Choice("u;v;|u-v|;u*v", "u;v;|u-v|", "|u-v|;u*v"),
        "classifier_width": Choice(64, 128, 256, 512),
        "pooling": Choice("max", "mean"),
    },
    live=frozenset({"learning_rate"}),
    # Section 3.3, except the learning rate, which is for AdamW; the paper uses SGD with 0.1.
    published={
        "hidden_size": 2048,
        "batch_size": 64,
        "learning_rate": 1e-3,
        "concatenation": "u;v;|u-v|;u*v",
        "classifier_width": 512,
        "pooling": "max",
    },
    # For small vectors and small corpora.
    starts={
        "scratch": {"hidden_size": 128, "batch_size": 32, "classifier_width": 64},
    },
)

DEFAULTS = WordOptions(study="infersent", corpus="builtin:nli", trials=6, max_examples=12_000)
