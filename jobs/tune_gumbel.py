"""Tunes GumbelCSE: boxes that tell which of two sentences entails the other.

    python jobs/tune_gumbel.py                       on the corpus and encoder that ship with it
    python jobs/tune_gumbel.py --dry-run             the plan alone
    python jobs/tune_gumbel.py --corpus snli:TRAIN --dev snli:DEV --test snli:TEST --encoder PATH

What is searched stands in search_spaces/gumbel.py; --help explains the options.
"""

import _path  # noqa: F401  the submitted code wins over an installed one

from search_spaces.gumbel import DEFAULTS, SPACE
from sentune import job

if __name__ == "__main__":
    job.run(SPACE, DEFAULTS)
