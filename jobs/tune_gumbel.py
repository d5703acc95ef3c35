"""Tunes GumbelCSE: box embeddings that tell which of two sentences entails the other.

    python jobs/tune_gumbel.py                       with the built-in corpus and encoder
    python jobs/tune_gumbel.py --dry-run             prints the plan only
    python jobs/tune_gumbel.py --corpus snli:TRAIN --dev snli:DEV --test snli:TEST --encoder PATH

The search space is in search_spaces/gumbel.py; --help explains the options.
"""

import _path  # noqa: F401  prefer the submitted code to an installed package

from search_spaces.gumbel import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
