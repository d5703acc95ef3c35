"""Tunes SBERT with a softmax classifier over pairs of sentence vectors.

    python jobs/tune_sbert_softmax.py                labelled pairs that ship with the package
    python jobs/tune_sbert_softmax.py --encoder roberta-base --corpus snli:snli_1.0_train.jsonl \
        --dev stsb:sts-dev.csv --objective sts/spearman
    python jobs/tune_sbert_softmax.py --sampler grid:table-6 --trials 7

What is searched stands in search_spaces/sbert.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.sbert import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
