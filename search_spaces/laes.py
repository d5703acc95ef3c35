"""LAES: search space, readouts, and the values of the paper.

Paper: Sequential Sentence Embeddings for Semantic Similarity, sections V and VI.
"""

from sentune.job.options import ClosedFormOptions
from sentune.study.space import Choice, SearchSpace, Uniform

SMALL, LARGE = tuple(range(1, 151)), (150, 300, 600, 1200, 2400)

SPACE = SearchSpace(
    method="laes",
    objective="sts/pearson",
    settings={
        "form": Choice("res", "bres-sum", "bres-cat"),
        # The paper uses a = 1e-3.
        "a": Uniform(1e-4, 1e-2, log=True),
    },
    published={"form": "res", "a": 1e-3},
    # n_h depends on the form (section VI); BRES has the grid of RES, from which it is built.
    readouts={
        "n_h": {
            "form": {
                "res": SMALL,
                "bres-sum": SMALL,
                "bres-cat": SMALL,
                "hid": LARGE,
                "reco": LARGE,
            }
        }
    },
    grids={
        "table-1": {"form": ("hid", "reco", "res", "bres-sum", "bres-cat"), "a": (1e-3,)},
    },
)

DEFAULTS = ClosedFormOptions(study="laes")
