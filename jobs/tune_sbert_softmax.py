"""Tunes SBERT with a softmax classifier over pairs of sentence vectors.

    python jobs/tune_sbert_softmax.py                with the built-in labelled pairs
    python jobs/tune_sbert_softmax.py --encoder roberta-base --corpus snli:snli_1.0_train.jsonl \
        --dev stsb:sts-dev.csv --objective sts/spearman
    python jobs/tune_sbert_softmax.py --sampler grid:table-6 --trials 7

The search space is in search_spaces/sbert.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.sbert import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
