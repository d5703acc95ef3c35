"""Tunes SIF on word vectors: fitted in closed form, every readout swept on each fit.

    python jobs/tune_sif.py --corpus stsb:sts-train.csv --dev stsb:sts-dev.csv \\
        --vectors glove:glove.840B.300d.txt --frequencies enwiki_vocab_min200.txt

What is searched stands in search_spaces/sif.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.sif import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
