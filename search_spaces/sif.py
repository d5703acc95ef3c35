"""SIF, uSIF and averages of word vectors: search space, readouts, and the values of the papers.

Papers: SIF (Arora et al. 2017), uSIF (Ethayarajh 2018), both as baselines of LAES, section VI.
"""

from sentune.job.options import ClosedFormOptions
from sentune.study.space import Choice, SearchSpace, Uniform

SPACE = SearchSpace(
    method="sif",
    objective="sts/pearson",
    settings={
        "variant": Choice("average", "sif", "usif"),
        "a": Uniform(1e-4, 1e-2, log=True),
    },
    # uSIF derives a from the vocabulary, and an average does not use it.
    conditions={"a": {"variant": ("sif",)}},
    published={"variant": "sif", "a": 1e-3},
    # Number of common components removed, fewer than the dimensions; an average removes none.
    readouts={
        "components": {
            "variant": {
                "average": (0,),
                "sif": tuple(range(151)),
                "usif": tuple(range(151)),
            }
        }
    },
    grids={"baselines": {"variant": ("average", "sif", "usif"), "a": (1e-3,)}},
)

DEFAULTS = ClosedFormOptions(study="sif")
