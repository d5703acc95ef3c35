"""Tunes SimCSE on pairs of sentences that mean the same, without hard negatives.

    python jobs/tune_simcse_pairs.py                 on the operations that ship with the package
    python jobs/tune_simcse_pairs.py --corpus wikisplit:train.tsv --dev stsb:sts-dev.csv \
        --encoder roberta-base

Of a fusion or a difference the two shorter sentences are concatenated: the supervised contrastive
baseline of InterSent's paper (section 3.3). What is searched stands in search_spaces/simcse.py;
--help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.simcse import PAIRS, PAIRS_DEFAULTS
from sentune import job

if __name__ == "__main__":
    job.run(PAIRS, PAIRS_DEFAULTS)
