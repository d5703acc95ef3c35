"""Tunes InterSent: embeddings that fuse, subtract and compress, and decode to sentences.

    python jobs/tune_intersent.py --quick            a first look, on what ships with the package
    python jobs/tune_intersent.py                    a search on it
    python jobs/tune_intersent.py --corpus wikisplit:train.tsv --corpus compression:train.tsv \
        --dev wikisplit:tune.tsv --dev compression:dev.tsv \
        --encoder roberta-base --decoder facebook/bart-base

What is searched stands in search_spaces/intersent.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.intersent import DEFAULTS, QUICK, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS, quick=QUICK)
