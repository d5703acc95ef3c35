"""Tunes InferSent: a bidirectional LSTM on word vectors, with a softmax classifier over pairs.

    python jobs/tune_infersent.py                    with the built-in labelled pairs
    python jobs/tune_infersent.py --vectors glove:glove.840B.300d.txt --set hidden_size=512 \
        --corpus snli:snli_1.0_train.jsonl --dev snli:snli_1.0_dev.jsonl

The search space is in search_spaces/infersent.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.infersent import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
