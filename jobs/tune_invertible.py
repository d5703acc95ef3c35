"""Tunes invertible decoders: a GRU that predicts the next sentence, and its inverted decoder.

    python jobs/tune_invertible.py                   with the built-in stories
    python jobs/tune_invertible.py --corpus books:FOLDER --dev sts:STS2014-gold \
        --vectors glove:glove.840B.300d.txt --objective sts14/pearson

The search space is in search_spaces/invertible.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.invertible import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
