"""Tunes unsupervised SimCSE: positives are the same sentence with two dropout masks.

    python jobs/tune_simcse_unsupervised.py --corpus text:sentences.txt --dev stsb:sts-dev.csv \
        --objective sts/spearman --encoder bert-base-uncased

The search space is in search_spaces/simcse.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.simcse import UNSUPERVISED, UNSUPERVISED_DEFAULTS
from sentune import job

if __name__ == "__main__":
    job.run(UNSUPERVISED, UNSUPERVISED_DEFAULTS)
