"""Tunes SIF on word vectors, which is fitted in closed form; all readouts are swept on each fit.

    python jobs/tune_sif.py --corpus stsb:sts-train.csv --dev stsb:sts-dev.csv \\
        --vectors glove:glove.840B.300d.txt --frequencies enwiki_vocab_min200.txt

The search space is in search_spaces/sif.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.sif import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
