"""Tunes supervised SimCSE: embeddings compared by their cosine.

    python jobs/tune_simcse.py                       with the built-in triplets
    python jobs/tune_simcse.py --encoder bert-base-uncased --corpus simcse-csv:nli.csv \
        --dev stsb:sts-dev.csv --objective sts/spearman

jobs/tune_simcse_unsupervised.py is for training without labels.

The search space is in search_spaces/simcse.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.simcse import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
