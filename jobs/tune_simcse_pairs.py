"""Tunes SimCSE on pairs of sentences with the same meaning, without hard negatives.

    python jobs/tune_simcse_pairs.py                 with the built-in operations
    python jobs/tune_simcse_pairs.py --corpus wikisplit:train.tsv --dev stsb:sts-dev.csv \
        --encoder roberta-base

The two shorter sentences of a fusion or a difference are concatenated, as in the supervised
contrastive baseline of the InterSent paper (section 3.3). The search space is in
search_spaces/simcse.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.simcse import PAIRS, PAIRS_DEFAULTS
from sentune import job

if __name__ == "__main__":
    job.run(PAIRS, PAIRS_DEFAULTS)
