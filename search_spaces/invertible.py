"""Invertible decoders: what is searched, what is selected by, and the paper's own values.

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
    # Section 4.5: d_z = 2048, so 1,024 units in each direction; one epoch.
    published={
        "decoder": "linear",
        "hidden_size": 1024,
        "batch_size": 512,
        "learning_rate": 5e-4,
        "negatives": 5,
        "beta": 0.01,
        "coupling_layers": 4,
    },
    # Small vectors and small texts.
    starts={
        "scratch": {"hidden_size": 128, "batch_size": 64, "learning_rate": 2e-3},
    },
    grids={
        # Table 2: both decoders; the constraint is fixed by --set constraint=false.
        "table-2": {"decoder": ("linear", "coupling")},
    },
    # Section 3.4: the encoder's z, that of the inverse decoder, or both, as they are or scaled.
    readouts={"representation": ("ensemble", "ensemble_scaled", "z_en", "z_de")},
)

DEFAULTS = WordOptions(study="invertible", trials=6, max_examples=12_000)
