"""SBERT with a softmax classifier: search space, objective, and the values of the paper.

Reimers, Gurevych: Sentence-BERT, 2019, sections 3.1 and 6.
"""

from sentune.job.options import JobOptions
from sentune.study.space import Choice, SearchSpace, Uniform

SPACE = SearchSpace(
    method="sbert-softmax",
    objective="rte/auc",
    settings={
        "batch_size": Choice(16, 32, 64, 128),
        "learning_rate": Uniform(5e-6, 5e-3, log=True),
        "concatenation": Choice(
            "u;v;|u-v|", "u;v;|u-v|;u*v", "u;v;u*v", "|u-v|;u*v", "|u-v|", "u*v", "u;v"
        ),
        "pooling": Choice("mean", "max", "cls"),
        "warmup": Uniform(0.0, 0.2),
    },
    live=frozenset({"learning_rate"}),
    # Section 3.1: batch size 16, Adam at 2e-5, warm-up over 10 % of the data, mean pooling.
    published={
        "batch_size": 16,
        "learning_rate": 2e-5,
        "concatenation": "u;v;|u-v|",
        "pooling": "mean",
        "warmup": 0.1,
    },
    starts={
        "scratch": {"batch_size": 32, "learning_rate": 1e-3},
    },
    grids={
        # Table 6: input of the classifier, and pooling.
        "table-6": {
            "concatenation": (
                "u;v",
                "|u-v|",
                "u*v",
                "|u-v|;u*v",
                "u;v;u*v",
                "u;v;|u-v|",
                "u;v;|u-v|;u*v",
            )
        },
        "table-6-pooling": {"pooling": ("mean", "max", "cls")},
    },
)

DEFAULTS = JobOptions(study="sbert-softmax")
