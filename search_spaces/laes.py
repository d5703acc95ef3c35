"""LAES: what is searched, what is read out, and the paper's own values.

Paper: Sequential Sentence Embeddings for Semantic Similarity, sections V and VI. The units n_h are
a readout: 1 to 150 for the residual forms, 150 to 2400 for hidden states and reconstructions.
"""

from sentune.study.space import Choice, SearchSpace, Uniform

SPACE = SearchSpace(
    method="laes",
    objective="sts/pearson",
    settings={
        "form": Choice("res", "bres-sum", "bres-cat"),
        # The paper leaves a at 1e-3.
        "a": Uniform(1e-4, 1e-2, log=True),
        "max_length": Choice(15, 25, 40),
    },
    published={"form": "res", "a": 1e-3, "max_length": 25},
    grids={
        "table-1": {"form": ("hid", "reco", "res", "bres-sum", "bres-cat"), "a": (1e-3,)},
    },
)
