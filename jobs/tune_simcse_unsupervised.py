"""Tunes unsupervised SimCSE: each sentence under two dropout masks, no labels.

    python jobs/tune_simcse_unsupervised.py --corpus text:sentences.txt --dev stsb:sts-dev.csv \
        --objective sts/spearman --encoder bert-base-uncased

What is searched stands in search_spaces/simcse.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.simcse import UNSUPERVISED, UNSUPERVISED_DEFAULTS
from sentune import job

if __name__ == "__main__":
    job.run(UNSUPERVISED, UNSUPERVISED_DEFAULTS)
