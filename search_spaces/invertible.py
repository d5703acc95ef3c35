"""Invertible decoders: search space, objective, readouts, and the values of the paper.

Paper: Exploiting Invertible Decoders for Unsupervised Sentence Representation Learning, sections
3 and 4.5.
"""

from sentune.job.options import WordOptions
from sentune.study.space import Choice, Integer, SearchSpace, Uniform

SPACE = SearchSpace(
    method="invertible",
    objective="sts/pearson",
    settings={
        "decoder": Choice("linear", "coupling"),
        "hidden_size": Choice(64, 128, 256, 512, 1024),
        "batch_size": Choice(64, 128, 256, 512),
        "learning_rate": Uniform(1e-4, 5e-3, log=True),
        "negatives": Integer(1, 20),
        "beta": Uniform(1e-3, 0.1, log=True),
        "coupling_layers": Choice(2, 4, 6, 8),
    },
    conditions={"coupling_layers": {"decoder": ("coupling",)}},
    live=frozenset({"learning_rate", "negatives", "beta"}),
    # Section 4.5: d_z = 2048, hence 1,024 units in each direction; one epoch.
    published={
        "decoder": "linear",
        "hidden_size": 1024,
        "batch_size": 512,
        "learning_rate": 5e-4,
        "negatives": 5,
        "beta": 0.01,
        "coupling_layers": 4,
    },
    # For small vectors and small corpora.
    starts={
        "scratch": {"hidden_size": 128, "batch_size": 64, "learning_rate": 2e-3},
    },
    grids={
        # Table 2: both decoders; --set constraint=false turns the constraint off.
        "table-2": {"decoder": ("linear", "coupling")},
    },
    # Section 3.4: z of the encoder, of the inverse decoder, or of both, unscaled or scaled.
    readouts={"representation": ("ensemble", "ensemble_scaled", "z_en", "z_de")},
)

DEFAULTS = WordOptions(study="invertible", trials=6, max_examples=12_000)
