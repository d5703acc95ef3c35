"""Tunes SimCSE: points compared by their cosine.

    python jobs/tune_simcse.py                       triplets, supervised
    python jobs/tune_simcse.py --encoder bert-base-uncased --corpus simcse-csv:nli.csv \
        --dev stsb:sts-dev.csv --objective sts/spearman

Without labels: jobs/tune_simcse_unsupervised.py.

What is searched stands in search_spaces/simcse.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.simcse import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
