"""SimCSE: search space, objective, and the values of the paper.

Gao, Yao, Chen: SimCSE, 2021; as used in section 4.1 of the GumbelCSE paper.
"""

from sentune.job.options import JobOptions
from sentune.study.space import Choice, SearchSpace, Uniform

# The objective is recognising entailment, because points cannot tell the direction.
SPACE = SearchSpace(
    method="simcse",
    objective="rte/auc",
    settings={
        "batch_size": Choice(32, 64, 128, 256, 512),
        "learning_rate": Uniform(1e-5, 5e-3, log=True),
        "temperature": Uniform(0.02, 0.2, log=True),
        "contradiction_weight": Uniform(0.25, 4.0, log=True),
        "pooling": Choice("cls", "mean"),
        "warmup": Uniform(0.0, 0.2),
    },
    live=frozenset({"learning_rate", "temperature", "contradiction_weight"}),
    # Batch size 512, learning rate 5e-5, temperature 0.05, [CLS].
    published={
        "batch_size": 512,
        "learning_rate": 5e-5,
        "temperature": 0.05,
        "contradiction_weight": 1.0,
        "pooling": "cls",
        "warmup": 0.0,
    },
    # Measured in docs/results.md, "First points".
    starts={
        "scratch": {
            "batch_size": 32,
            "learning_rate": 1e-3,
            "pooling": "mean",
            "warmup": 0.1,
        },
        "small": {"batch_size": 32, "pooling": "mean", "warmup": 0.1},
    },
)

# Dropout pairs from unlabelled sentences: batch size 64, learning rate 3e-5 for bert-base.
UNSUPERVISED = SearchSpace(
    method="simcse-unsupervised",
    objective="rte/auc",
    settings={
        "batch_size": Choice(32, 64, 128, 256, 512),
        "learning_rate": Uniform(1e-5, 1e-3, log=True),
        "temperature": Uniform(0.02, 0.2, log=True),
        "dropout": Uniform(0.05, 0.3),
        "pooling": Choice("cls", "mean"),
        "warmup": Uniform(0.0, 0.2),
    },
    live=frozenset({"learning_rate", "temperature", "dropout"}),
    published={
        "batch_size": 64,
        "learning_rate": 3e-5,
        "temperature": 0.05,
        "dropout": 0.1,
        "pooling": "cls",
        "warmup": 0.0,
    },
)

# Pairs without hard negatives: the supervised contrastive baseline of InterSent, with batch size
# and temperature from its code.
PAIRS = SearchSpace(
    method="simcse-pairs",
    objective="sts/spearman",
    settings={
        "batch_size": Choice(32, 64, 128, 256, 512),
        "learning_rate": Uniform(1e-6, 5e-3, log=True),
        "temperature": Uniform(0.02, 0.2, log=True),
        "pooling": Choice("cls", "mean"),
        "warmup": Uniform(0.0, 0.2),
    },
    live=frozenset({"learning_rate", "temperature"}),
    published={
        "batch_size": 256,
        "learning_rate": 5e-6,
        "temperature": 0.05,
        "pooling": "cls",
        "warmup": 0.05,
    },
    starts={"scratch": {"batch_size": 64, "learning_rate": 1e-3, "pooling": "mean"}},
)

DEFAULTS = JobOptions(study="simcse")
UNSUPERVISED_DEFAULTS = JobOptions(study="simcse-unsupervised")
PAIRS_DEFAULTS = JobOptions(study="simcse-pairs", corpus="builtin:operations")
