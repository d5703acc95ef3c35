"""Tunes InterSent: operations that fuse, subtract and compress sentences in embedding space.

    python jobs/tune_intersent.py --quick            a short study with the built-in corpus
    python jobs/tune_intersent.py                    a search with the built-in corpus
    python jobs/tune_intersent.py --corpus wikisplit:train.tsv --corpus compression:train.tsv \
        --dev wikisplit:tune.tsv --dev compression:dev.tsv \
        --encoder roberta-base --decoder facebook/bart-base

The search space is in search_spaces/intersent.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.intersent import DEFAULTS, QUICK, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS, quick=QUICK)
