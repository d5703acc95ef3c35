"""Tunes invertible decoders: a GRU that predicts the next sentence, and its decoder run backwards.

    python jobs/tune_invertible.py                   on the stories that ship with the package
    python jobs/tune_invertible.py --corpus books:FOLDER --dev sts:STS2014-gold \
        --vectors glove:glove.840B.300d.txt --objective sts14/pearson

What is searched stands in search_spaces/invertible.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.invertible import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
