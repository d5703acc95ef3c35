"""InterSent: search space, objective, and the values of the paper.

Paper: Bridging Continuous and Discrete Spaces, sections 2 and 3.2, appendix B. If several corpora
are given, their weights are searched, too; that of the first is 1.
"""

from sentune.job.options import OperationOptions
from sentune.study.space import Choice, SearchSpace, Uniform

SPACE = SearchSpace(
    method="intersent",
    # The unweighted mean of ROUGE-1 over the operations, as in the paper's tables 1 and 8.
    objective="generation/rouge1",
    settings={
        "batch_size": Choice(64, 128, 256, 512),
        "learning_rate": Uniform(1e-6, 5e-3, log=True),
        "decoder_learning_rate": Uniform(1e-5, 5e-3, log=True),
        "alpha": Uniform(1e-3, 10.0, log=True),
        "temperature": Uniform(0.02, 0.5, log=True),
        "operator_width": Choice(256, 768, 1536),
        "bottleneck_width": Choice(64, 128, 384, 768),
        "pooling": Choice("cls", "mean"),
        "warmup": Uniform(0.0, 0.2),
    },
    live=frozenset({"learning_rate", "decoder_learning_rate", "alpha", "temperature"}),
    # Section 3.2 and appendix B; batch size (4 x 64), temperature and operator width (twice the
    # encoder's) are from the paper's code.
    published={
        "batch_size": 256,
        "learning_rate": 5e-6,
        "decoder_learning_rate": 1e-4,
        "alpha": 0.01,
        "temperature": 0.05,
        "operator_width": 1536,
        "bottleneck_width": 384,
        "pooling": "cls",
        "warmup": 0.05,
    },
    # From scratch the decoder must learn the language, too. After 30,000 examples of
    # builtin:operations it still ignored the embedding with [CLS] pooling (fusion 54); with mean
    # pooling fusion was at 99.
    starts={
        "scratch": {
            "batch_size": 64,
            "learning_rate": 1e-3,
            "decoder_learning_rate": 1e-3,
            "alpha": 1.0,
            "operator_width": 256,
            "pooling": "mean",
        }
    },
)

DEFAULTS = OperationOptions(
    study="intersent",
    encoder="builtin:tiny?layers=1&width=128",
    decoder="builtin:tiny?layers=1&width=128",
    max_examples=60_000,
)

# The paper's configuration and one for a small model from scratch, without finals.
QUICK = {"study": "intersent-quick", "trials": 2, "finalists": 0}
